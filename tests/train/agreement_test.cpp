// SPDX-License-Identifier: MIT
#include "train/agreement.h"

#include "support/ranks.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(Agreement, WhatOneRankRaisesAllSeeAtTheSameExchange) {
  testing::on_ranks(3, [](Communicator& ranks) {
    Agreement agreement(ranks);
    int stopped_at = -1;
    for (int step = 0; step < 10 && stopped_at < 0; ++step) {
      const bool mine = ranks.world().rank == 2 && step >= 4;
      if (agreement.exchange({.stop = mine}).stop) stopped_at = step;
    }
    EXPECT_EQ(stopped_at, 5);
    agreement.settle();
  });
}

TEST(Agreement, FlagsAreApart) {
  testing::on_ranks(2, [](Communicator& ranks) {
    Agreement agreement(ranks);
    agreement.exchange({.save = ranks.world().rank == 0});
    const auto agreed = agreement.exchange({});
    EXPECT_TRUE(agreed.save);
    EXPECT_FALSE(agreed.stop);
    agreement.settle();
  });
}

TEST(Agreement, ANonfiniteStepIsToldWithItsNumber) {
  testing::on_ranks(2, [](Communicator& ranks) {
    Agreement agreement(ranks);
    EXPECT_EQ(agreement.exchange({.nonfinite = ranks.world().rank == 1, .checked_step = 7}).checked_step, -1);
    const auto agreed = agreement.exchange({.checked_step = 8});
    EXPECT_TRUE(agreed.nonfinite);
    EXPECT_EQ(agreed.checked_step, 7);
    EXPECT_FALSE(agreement.exchange({}).nonfinite);
    agreement.settle();
  });
}

TEST(Agreement, AloneSeesItsOwnFlagsAtOnce) {
  Communicator alone({});
  EXPECT_TRUE(Agreement(alone).exchange({.stop = true}).stop);
}

}  // namespace
}  // namespace ddprun
