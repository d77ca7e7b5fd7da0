// SPDX-License-Identifier: MIT
// Four classes, each reported by one number, and one promise that is not kept.
#include <ddprun/dataset.h>

#include <torch/types.h>

namespace {

constexpr int64_t kClasses = 4;

class FlawedDataset final : public ddprun::Dataset {
 public:
  explicit FlawedDataset(ddprun::Options& options)
      : flaw_(options.get<std::string>("flaw", "", "what is wrong with the samples")),
        prepares_(options.get<bool>("prepares", false, "start() needs prepare()")) {}

  void prepare(const ddprun::Progress& /*progress*/) override { prepares_ = false; }
  bool is_prepared() const override { return !prepares_; }

  void start() override {
    if (prepares_) throw std::runtime_error("nobody has called prepare()");
  }

  ddprun::DataSpec spec() const override { return {.sample_shape = {kClasses}, .classes = kClasses}; }
  int64_t size(ddprun::Split split) const override { return split == ddprun::Split::kTrain ? 64 : 16; }

  ddprun::Batch get(ddprun::Split /*split*/, std::span<const int64_t> indices) const override {
    const auto index = at::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()), at::kLong);
    const auto target = index.remainder(kClasses);
    ddprun::Batch batch{.input = torch::one_hot(target, kClasses).to(at::kFloat), .target = target, .index = index};
    if (flaw_ == "count") batch = {batch.input.slice(0, 1), batch.target.slice(0, 1), batch.index.slice(0, 1)};
    if (flaw_ == "no index") batch.index.reset();
    if (flaw_ == "index") batch.index = batch.index + 1;
    if (flaw_ == "type") batch.input = batch.input.to(at::kDouble);
    if (flaw_ == "label") batch.target = batch.target + 1;
    if (flaw_ == "shape") batch.input = batch.input.slice(1, 1);
    return batch;
  }

  void augment(ddprun::Batch& batch, const ddprun::AugmentKey& /*key*/) const override {
    if (flaw_ == "augment") batch.input = batch.input.slice(0, 1);
  }

  at::Tensor to_image(const at::Tensor& /*input*/) const override { return {}; }

 private:
  std::string flaw_;
  bool prepares_;
};

}  // namespace

DDPRUN_DATASET(FlawedDataset, "flawed_dataset", "four classes, each reported by one number, with a flaw on demand")
