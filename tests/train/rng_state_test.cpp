// SPDX-License-Identifier: MIT
#include "train/rng_state.h"

#include <ATen/ATen.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace ddprun {
namespace {

TEST(RngState, EveryRankDrawsItsOwnNumbersOnTheCpuToo) {
  std::set<double> numbers;
  for (int64_t rank = 0; rank < 8; ++rank) {
    seed_generators(42, rank, nullptr);
    numbers.insert(at::rand({}, at::kDouble).item<double>());
  }
  EXPECT_EQ(numbers.size(), 8U);
}

}  // namespace
}  // namespace ddprun
