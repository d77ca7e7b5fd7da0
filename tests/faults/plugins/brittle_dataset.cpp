// SPDX-License-Identifier: MIT
#include "brittle.h"

#include <ddprun/dataset.h>

#include <torch/types.h>

namespace {

constexpr int64_t kClasses = 4;

class BrittleDataset final : public ddprun::Dataset {
 public:
  explicit BrittleDataset(ddprun::Options& /*options*/) {}

  void prepare(const ddprun::Progress& /*progress*/) override { brittle::reach("dataset.prepare"); }
  void start() override { brittle::reach("dataset.start"); }

  ddprun::DataSpec spec() const override {
    brittle::reach("dataset.spec");
    return {.sample_shape = {kClasses}, .classes = kClasses};
  }

  int64_t size(ddprun::Split split) const override { return split == ddprun::Split::kTrain ? 64 : 16; }

  ddprun::Batch get(ddprun::Split /*split*/, std::span<const int64_t> indices) const override {
    brittle::reach("dataset.get");
    const auto index = at::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()), at::kLong);
    const auto target = index.remainder(kClasses);
    return {.input = torch::one_hot(target, kClasses).to(at::kFloat), .target = target, .index = index};
  }

  void augment(ddprun::Batch& /*batch*/, const ddprun::AugmentKey& /*key*/) const override {
    brittle::reach("dataset.augment");
  }

  at::Tensor to_image(const at::Tensor& /*input*/) const override {
    brittle::reach("dataset.to_image");
    return {};
  }
};

}  // namespace

DDPRUN_DATASET(BrittleDataset, "brittle_dataset",
               "four classes, each reported by one number, with hooks that fail on demand")
