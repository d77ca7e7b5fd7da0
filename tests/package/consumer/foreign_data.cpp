// SPDX-License-Identifier: MIT
// A data set from outside the tree: a file of numbers that would be downloaded.
#include <ddprun/dataset.h>
#include <ddprun/download.h>
#include <ddprun/files.h>

#include <ATen/ops/zeros.h>

namespace {

const ddprun::FileTable kTable{.name = "foreign_data",
                               .files = {{.archive = {.name = "bytes.gz", .bytes = 1000, .sha256 = "00"}}},
                               .mirrors = {"http://127.0.0.1:9"}};

class ForeignData final : public ddprun::Dataset {
 public:
  explicit ForeignData(ddprun::Options& options) : folder_(ddprun::read_data_folder(kTable, "bytes.gz", options)) {}

  void prepare(const ddprun::Progress& progress) override { folder_.fetch(progress); }
  void start() override { file_ = ddprun::map_file(folder_.require().front()); }
  ddprun::DataSpec spec() const override { return {.sample_shape = {1}, .classes = 2}; }
  int64_t size(ddprun::Split) const override { return static_cast<int64_t>(file_.size); }

  ddprun::Batch get(ddprun::Split, std::span<const int64_t> indices) const override {
    const auto count = static_cast<int64_t>(indices.size());
    ddprun::Batch batch;
    batch.input = at::zeros({count, 1});
    batch.target = at::zeros({count}, at::kLong);
    return batch;
  }

 private:
  ddprun::DataFolder folder_;
  ddprun::MappedFile file_;
};

}  // namespace

DDPRUN_DATASET(ForeignData, "foreign_data", "a data set from outside the tree")
