// SPDX-License-Identifier: MIT
#include <ddprun/random.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <vector>

namespace ddprun {
namespace {

using testing::ElementsAre;

// The known answers that come with the paper's own implementation (Random123, kat_vectors, philox4x32 10).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_THAT(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(RandomStream, DependsOnSeedStreamAndSubstream) {
  const auto first = [](uint64_t seed, uint64_t stream, uint32_t substream) {
    return RandomStream(seed, stream, substream).next();
  };
  EXPECT_EQ(first(1, 2, 3), first(1, 2, 3));
  EXPECT_NE(first(1, 2, 3), first(2, 2, 3));
  EXPECT_NE(first(1, 2, 3), first(1, 3, 3));
  EXPECT_NE(first(1, 2, 3), first(1, 2, 4));
  EXPECT_NE(first(1, 2, 3), first(1, 2 + (uint64_t{1} << 32), 3));
  EXPECT_NE(first(1, 2, 3), first(1 + (uint64_t{1} << 32), 2, 3));
}

TEST(RandomStream, DrawsTheBlocksOfPhiloxInOrder) {
  RandomStream stream(0, 0);
  const auto block0 = philox({0, 0, 0, 0}, {0, 0}), block1 = philox({1, 0, 0, 0}, {0, 0});
  for (const auto& block : {block0, block1}) {
    for (const auto word : block) EXPECT_EQ(stream.next(), word);
  }
}

TEST(RandomStream, DrawsUniformlyFromItsIntervalAndNormally) {
  RandomStream stream(7, 1);
  double sum = 0, squares = 0, normal_sum = 0, normal_squares = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const auto draw = stream.uniform(2, 4), normal = stream.normal();
    ASSERT_TRUE(2 <= draw && draw < 4);
    ASSERT_TRUE(std::isfinite(normal));
    sum += draw;
    squares += (draw - 3) * (draw - 3);
    normal_sum += normal;
    normal_squares += normal * normal;
  }
  EXPECT_NEAR(sum / kDraws, 3, 0.01);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.01);
  EXPECT_NEAR(normal_sum / kDraws, 0, 0.02);
  EXPECT_NEAR(normal_squares / kDraws, 1, 0.03);
}

TEST(RandomStream, DrawsBelowABoundWithoutBias) {
  RandomStream stream(7, 3);
  std::array<int, 6> counts{};
  for (int i = 0; i < 60'000; ++i) ++counts.at(stream.below(6));
  for (const auto count : counts) EXPECT_NEAR(count, 10'000, 500);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(stream.below(1), 0U);
}

TEST(RandomStream, ShufflesIntoEachOrderEquallyOften) {
  RandomStream random(1, 2);
  std::map<std::vector<int>, int> orders;
  for (int i = 0; i < 6000; ++i) {
    std::vector<int> values{0, 1, 2};
    random.shuffle(values);
    ++orders[values];
  }
  EXPECT_EQ(orders.size(), 6U);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 1000, 150);  // five standard deviations
  std::vector<int> none;
  random.shuffle(none);
}

TEST(UniformForSamples, GivesARowToEachSampleWhateverTheBatch) {
  const auto together = uniform_for_samples(5, 2, at::tensor({3, 9, 4}, at::kLong), 6);
  const auto alone = uniform_for_samples(5, 2, at::tensor({9}, at::kLong), 6);
  EXPECT_EQ(together.sizes(), (at::IntArrayRef{3, 6}));
  EXPECT_TRUE(together[1].equal(alone[0]));
  EXPECT_FALSE(together[0].equal(together[2]));
  EXPECT_FALSE(alone.equal(uniform_for_samples(5, 3, at::tensor({9}, at::kLong), 6)));
  EXPECT_GE(together.min().item<float>(), 0);
  EXPECT_LT(together.max().item<float>(), 1);
}

}  // namespace
}  // namespace ddprun
