// SPDX-License-Identifier: MIT
// A data set in MNIST's format: the loader that the plugins of this folder share.
#pragma once

#include <ddprun/data_digest.h>
#include <ddprun/dataset.h>
#include <ddprun/download.h>
#include <ddprun/image_store.h>

#include <array>
#include <string>
#include <vector>

namespace ddprun::idx {

struct IdxTable {
  FileTable data;            // files: train images, train labels, test images, test labels
  double mean = 0, std = 1;  // of the training pixels, 0 .. 1
  std::vector<std::string> class_names;
};

// Returns the entry for <name>.gz or <name>. The second checksum is that of the unpacked file, or empty if none is
// published.
FileEntry packed_file(const std::string& name, int64_t archive_bytes, const std::string& archive_sha256,
                      const std::string& content_sha256);

class IdxDataset : public Dataset {
 public:
  // `table` must outlive the dataset.
  IdxDataset(const IdxTable& table, Options& options);

  void prepare(const Progress& progress) override;
  bool is_prepared() const override { return folder_.needs_no_download(); }
  void start() override;
  DataSpec spec() const override;
  DataAccount account() const override { return account_of_images(stores_, beyond_limit_); }
  int64_t size(Split split) const override { return store(split).size(); }
  Batch get(Split split, std::span<const int64_t> indices) const override { return store(split).gather(indices); }
  ImageSource images(Split split) const override { return {.store = &store(split)}; }
  at::Tensor to_image(const at::Tensor& input) const override {
    return ImageStore(format_, nullptr, {}).to_image(input);
  }
  bool start_without_data(const DataSpec& noted, const Batch& form) override;
  std::vector<std::string> use_inputs(const std::vector<std::filesystem::path>& files) override;

 private:
  const ImageStore& store(Split split) const { return stores_[static_cast<size_t>(split)]; }
  void set_format(const std::vector<int64_t>& shape);
  ImageStore load(const std::filesystem::path& images, const std::filesystem::path& labels) const;

  const IdxTable& table_;
  DataFolder folder_;
  int64_t validation_ = 0;
  int64_t limit_train_ = 0;   // 0: all
  int64_t beyond_limit_ = 0;  // images that it leaves out
  double mean_ = 0, std_ = 1;
  std::array<ImageStore, 3> stores_;  // by Split
  ImageFormat format_;
};

}  // namespace ddprun::idx
