// SPDX-License-Identifier: MIT
#include "data/mixing.h"

#include "data/loader.h"
#include "support/error_of.h"
#include "support/toy.h"

#include <ddprun/image_augment.h>

#include <ATen/ATen.h>

#include <array>
#include <memory>

namespace ddprun {
namespace {

constexpr int64_t kSamples = 43, kBatch = 9;  // the last batch of an epoch has 7

// Noise that is a function of the sample, each of a class of its own. Augmentation mirrors it.
class Noise : public testing::ToyDataset {
 public:
  Noise() : ToyDataset(kSamples, 0) {}
  DataSpec spec() const override { return {.sample_shape = {2, 12, 10}, .classes = kSamples}; }

  Batch get(Split, std::span<const int64_t> indices) const override {
    const auto index = at::tensor(at::IntArrayRef(indices.data(), indices.size()), at::kLong);
    return {.input = uniform_for_samples(1, 0, index, 240).view({-1, 2, 12, 10}), .target = index, .index = index};
  }

  void augment(Batch& batch, const AugmentKey& key) const override {
    batch.input = ImageAugmentation{.flip = true}.apply(batch.input, batch.index, key, {0, 0});
  }
};

TrainLoader loader(const TrainerConfig& mixing, World world, int64_t first_step = 0) {
  auto config = mixing;
  config.global_batch = kBatch;
  return {std::make_shared<Noise>(), config, 42, world, at::kCPU, first_step};
}

// The samples of a step as they are without mixing, and after the sample that each is mixed with.
struct Pairs {
  at::Tensor own, before, classes, classes_before;
};

Pairs pairs_of(const Batch& plain) {
  return {plain.input, plain.input.roll(1, 0), plain.target, plain.target.roll(1, 0)};
}

// The share of its own class that each sample has left; checks that the rest is of the other one.
at::Tensor shares(const Batch& mixed, const Pairs& pairs) {
  const auto of = [&](const at::Tensor& classes) { return mixed.target.gather(1, classes.unsqueeze(1)).squeeze(1); };
  EXPECT_TRUE((of(pairs.classes) + of(pairs.classes_before)).allclose(at::ones({mixed.size()})));
  return of(pairs.classes);
}

const std::array<TrainerConfig, 3> kWays{TrainerConfig{.mixup = 0.4}, TrainerConfig{.cutmix = 1},
                                         TrainerConfig{.mixup = 0.2, .cutmix = 1}};

TEST(Mixing, GivesTheSameBitsAtAnyNumberOfRanks) {
  for (const auto& way : kWays) {
    for (const int64_t ranks : {2, 3, 5}) {
      auto alone = loader(way, {0, 1});
      std::vector<std::unique_ptr<TrainLoader>> several;
      for (int64_t rank = 0; rank < ranks; ++rank) several.emplace_back(new TrainLoader(loader(way, {rank, ranks})));
      for (int step = 0; step < 12; ++step) {
        std::vector<at::Tensor> inputs, targets, numbers;
        for (auto& rank : several) {
          const auto item = rank->next();
          if (item.weight == 0) continue;
          inputs.push_back(item.batch.input);
          targets.push_back(item.batch.target);
          numbers.push_back(item.batch.index);
        }
        const auto whole = alone.next().batch;
        ASSERT_TRUE(at::cat(inputs).equal(whole.input)) << ranks << " ranks, step " << step;
        ASSERT_TRUE(at::cat(targets).equal(whole.target));
        ASSERT_TRUE(at::cat(numbers).equal(whole.index));
      }
    }
  }
}

TEST(Mixing, OfAStepDoesNotDependOnWhereTheRunStarted) {
  auto whole = loader(kWays[2], {1, 2});
  for (int step = 0; step < 7; ++step) whole.next();
  const auto expected = whole.next().batch, resumed = loader(kWays[2], {1, 2}, 7).next().batch;
  EXPECT_TRUE(resumed.input.equal(expected.input));
  EXPECT_TRUE(resumed.target.equal(expected.target));
}

TEST(Mixing, AddsSharesOfEachSampleAndTheOneBefore) {
  auto mixing = loader({.mixup = 1}, {0, 1}), plain = loader({}, {0, 1});
  for (int step = 0; step < 10; ++step) {
    const auto mixed = mixing.next().batch;
    const auto pairs = pairs_of(plain.next().batch);
    const auto share = shares(mixed, pairs).view({-1, 1, 1, 1});
    EXPECT_TRUE(share.eq(share[0]).all().item<bool>());
    EXPECT_TRUE(mixed.input.allclose(pairs.own * share + pairs.before * (1 - share), 1e-4, 1e-5));
  }
}

TEST(Mixing, CutsARectangleOfTheShareThatTheTargetLoses) {
  auto mixing = loader({.cutmix = 1}, {0, 1}), plain = loader({}, {0, 1});
  bool any = false;
  for (int step = 0; step < 10; ++step) {
    const auto mixed = mixing.next().batch;
    const auto pairs = pairs_of(plain.next().batch);
    const auto of_other = mixed.input.eq(pairs.before).all(1);  // [B, H, W]
    EXPECT_TRUE(at::where(of_other.unsqueeze(1), pairs.before, pairs.own).equal(mixed.input));
    const auto lost = of_other.to(at::kFloat).mean({1, 2});
    EXPECT_TRUE(shares(mixed, pairs).allclose(1 - lost, 1e-4, 1e-6));
    const auto rows = of_other.any(2), columns = of_other.any(1);
    EXPECT_TRUE(rows.unsqueeze(2).logical_and(columns.unsqueeze(1)).equal(of_other));
    any |= lost.max().item<float>() > 0;
  }
  EXPECT_TRUE(any);
}

TEST(Mixing, DrawsSharesOfTheBetaDistributionAndEitherWayHalfOfTheTime) {
  constexpr int64_t kSteps = 3000;
  const auto numbers = at::arange(2, at::kLong);
  const Batch pair{.input = at::zeros({2, 1, 2, 2}), .target = numbers, .index = numbers};
  const DataSpec data{.sample_shape = {1, 2, 2}, .classes = 2};
  const Mixing mixup({.mixup = 0.2}, 5, data);
  auto drawn = at::empty({kSteps}, at::kDouble);
  for (int64_t step = 0; step < kSteps; ++step) drawn[step] = mixup.mixed(pair, step).target[0][1];
  EXPECT_NEAR(drawn.mean().item<double>(), 0.5, 0.03);
  EXPECT_NEAR(drawn.var().item<double>(), 1 / (4 * (2 * 0.2 + 1)), 0.01);

  auto images = pair;
  images.input = at::stack({at::zeros({1, 8, 8}), at::ones({1, 8, 8})});
  const Mixing both({.mixup = 0.5, .cutmix = 1}, 5, {.sample_shape = {1, 8, 8}, .classes = 2});
  int64_t cuts = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto mixed = both.mixed(images, step).input;
    cuts += mixed.eq(0).logical_or(mixed.eq(1)).all().item<bool>() ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(cuts) / kSteps, 0.5, 0.05);
}

TEST(Mixing, RefusesWhatHasNoClassPerSample) {
  const auto refusal = [](const TrainerConfig& config, const DataSpec& data) {
    return error_of([&] { Mixing(config, 1, data); });
  };
  EXPECT_TRUE(says(refusal({.mixup = 1}, {.sample_shape = {8}}), "trainer.mixup mixes the classes of samples"));
  EXPECT_TRUE(says(refusal({.cutmix = 1}, {.sample_shape = {8}, .classes = 3}), "trainer.cutmix cuts out of images"));
  EXPECT_TRUE(says(refusal({.mixup = 1}, {.sample_shape = {8}, .classes = 3, .extras = {{"mask", {}}}}), "extras"));
  const Mixing mixing({.mixup = 1}, 1, {.sample_shape = {4}, .classes = 3});
  const auto symbols = at::zeros({2, 4}, at::kLong);
  const Batch batch{.input = symbols, .target = symbols, .index = at::arange(2, at::kLong)};
  EXPECT_TRUE(says(error_of([&] { mixing.mixed(batch, 0); }), "targets of [2, 4] Long"));
}

}  // namespace
}  // namespace ddprun
