// SPDX-License-Identifier: MIT
// A generated regression task, Friedman's first problem ("Multivariate adaptive regression splines", 1991):
//
//   y = 10 sin(pi x1 x2) + 20 (x3 - 0.5)^2 + 10 x4 + 5 x5 + noise * e
//
// Every x is uniform in [0, 1) and e is normal. Features beyond the fifth do not affect y. Sample n of a split depends
// only on (seed, split, n), and its y does not depend on the number of features.
#include <ddprun/dataset.h>
#include <ddprun/random.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <stdexcept>

namespace {

using ddprun::Split;

constexpr uint64_t kStream = 0x667269656400;  // "fried": distinct from other uses of the seed; the split is added
constexpr int64_t kInformative = 5;           // features that y depends on
constexpr int64_t kMostFeatures = 10'000;
constexpr int64_t kMostSamples = 1'000'000'000;  // none is kept: each is drawn when it is asked for

double value_of(std::span<const float> x) {
  const double bow = x[2] - 0.5;
  return 10 * std::sin(std::numbers::pi * x[0] * x[1]) + 20 * bow * bow + 10 * x[3] + 5 * x[4];
}

class Friedman final : public ddprun::Dataset {
 public:
  explicit Friedman(ddprun::Options& options) {
    sizes_[0] = options.get<int64_t>("train_size", 10'000, "training samples", {.min = 1, .max = kMostSamples});
    sizes_[1] = options.get<int64_t>("val_size", 1'000, "validation samples", {.min = 0, .max = kMostSamples});
    sizes_[2] = options.get<int64_t>("test_size", 10'000, "test samples", {.min = 0, .max = kMostSamples});
    features_ = options.get<int64_t>("features", 10, "values per sample; those beyond the fifth have no effect",
                                     {.min = kInformative, .max = kMostFeatures});
    noise_ = options.get<double>("noise", 1, "standard deviation of the noise: no model's mse is below its square",
                                 {.min = 0});
    seed_ = options.get<int64_t>("seed", 1, "another seed gives other samples", {.min = 0});
  }

  void start() override {}

  ddprun::DataSpec spec() const override { return {.sample_shape = {features_}}; }

  int64_t size(Split split) const override { return sizes_[static_cast<size_t>(split)]; }

  ddprun::Batch get(Split split, std::span<const int64_t> indices) const override {
    const auto count = static_cast<int64_t>(indices.size());
    ddprun::Batch batch{.input = at::empty({count, features_}),
                        .target = at::empty({count}),
                        .index = at::tensor(at::IntArrayRef(indices.data(), indices.size()), at::kLong)};
    auto* sample = batch.input.mutable_data_ptr<float>();
    auto* target = batch.target.mutable_data_ptr<float>();
    for (const int64_t index : indices) {
      *target++ = draw(split, index, {sample, static_cast<size_t>(features_)});
      sample += features_;
    }
    return batch;
  }

 private:
  // Fills the sample, and returns its y.
  float draw(Split split, int64_t index, std::span<float> sample) const {
    if (index < 0 || index >= size(split)) throw std::out_of_range("sample " + std::to_string(index));
    ddprun::RandomStream random(static_cast<uint64_t>(seed_), kStream + static_cast<uint64_t>(split),
                                static_cast<uint32_t>(index));
    for (auto& x : sample.first(kInformative)) x = static_cast<float>(random.uniform());
    const double error = random.normal();  // drawn before the other features, so that their number does not change it
    for (auto& x : sample.subspan(kInformative)) x = static_cast<float>(random.uniform());
    return static_cast<float>(value_of(sample) + noise_ * error);
  }

  std::array<int64_t, 3> sizes_{};
  int64_t features_, seed_;
  double noise_;
};

}  // namespace

DDPRUN_DATASET(Friedman, "friedman", "Friedman's first regression problem, drawn by the program: no files needed")
