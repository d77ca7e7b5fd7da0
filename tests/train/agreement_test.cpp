// SPDX-License-Identifier: MIT
#include "train/agreement.h"

#include "support/error_of.h"
#include "support/ranks.h"
#include "support/toy.h"
#include "train/same_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

TEST(Agreement, RanksAskForSamplesAtFirstAndWhileTheyAreSlow) {
  testing::on_ranks(2, [](Communicator& ranks) {
    Agreement agreement(ranks);
    const bool is_first = ranks.world().rank == 0;
    const auto steps = [&](double seconds) {
      for (int step = 0; step < 2; ++step) {
        EXPECT_TRUE(agreement.have_samples(true, is_first ? seconds : 0));
        agreement.due();
        agreement.exchange({});
      }
      return agreement.asks_for_samples();
    };
    EXPECT_TRUE(agreement.asks_for_samples());
    EXPECT_FALSE(steps(0));
    EXPECT_TRUE(steps(1));
    EXPECT_FALSE(agreement.have_samples(is_first, 0));  // the other gets none
    agreement.settle();
  });
}

TEST(Agreement, RanksAskForSamplesWhereOneMayHaveToWait) {
  testing::on_ranks(2, [](Communicator& ranks) {
    double now = 0;
    Agreement agreement(ranks, [&now] { return ++now; });
    const auto asks_after = [&](bool may_wait) {
      agreement.due();
      agreement.exchange({.may_wait = may_wait && ranks.world().rank == 1});
      EXPECT_EQ(agreement.steps_ahead(), 2);
      return agreement.asks_for_samples();
    };
    asks_after(false);
    EXPECT_FALSE(asks_after(true));
    EXPECT_TRUE(asks_after(false));
    EXPECT_FALSE(asks_after(false));
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

TEST(Agreement, ANonfiniteStepIsReportedWithItsNumber) {
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

// Steps take a millisecond, and then a second.
TEST(Agreement, ShortStepsShareAnExchangeAndLongOnesHaveTheirOwn) {
  testing::on_ranks(3, [](Communicator& ranks) {
    double now = static_cast<double>(ranks.world().rank);  // no two clocks are alike
    Agreement agreement(ranks, [&now] { return now; });
    const auto exchanges = [&](int steps, double step_seconds) {
      int count = 0;
      for (int step = 0; step < steps; ++step) {
        now += step_seconds;
        if (!agreement.due()) continue;
        agreement.exchange({});
        ++count;
      }
      return count;
    };
    exchanges(100, 0.001);
    EXPECT_EQ(exchanges(200, 0.001), 10);     // 20 ms apart
    EXPECT_LT(exchanges(640, 1e-5), 40);      // kMostSteps at most
    exchanges(3 * Agreement::kMostSteps, 1);  // of which two are still far apart
    EXPECT_EQ(exchanges(10, 1), 10);
    agreement.settle();
  });
}

TEST(Agreement, WhatIsRaisedBetweenTwoExchangesIsNotLost) {
  testing::on_ranks(2, [](Communicator& ranks) {
    double now = 0;
    Agreement agreement(ranks, [&now] { return now; });
    int64_t between = 0, stopped_at = -1;
    for (int64_t step = 0; step < 300 && stopped_at < 0; ++step) {
      now += 0.001;
      const bool due = agreement.due();
      const Flags mine{.stop = ranks.world().rank == 1 && !due && step > 100 && between++ == 0};
      if (!due) {
        agreement.keep(mine);
      } else if (agreement.exchange(mine).stop) {
        stopped_at = step;
      }
    }
    EXPECT_GT(stopped_at, 100);
    EXPECT_LT(stopped_at, 150);  // two exchanges later
    agreement.settle();
  });
}

TEST(Agreement, AloneSeesItsOwnFlagsAtOnce) {
  Communicator alone({});
  EXPECT_TRUE(Agreement(alone).exchange({.stop = true}).stop);
}

TEST(RequireSameData, NamesTheRankWithOtherSizes) {
  testing::on_ranks(3, [](Communicator& communicator) {
    const auto refusal = [&](int64_t samples_of_the_last) {
      const testing::ToyDataset data(communicator.world().rank == 2 ? samples_of_the_last : 100, 40);
      return error_of([&] { require_same_data(data, Experiment(), communicator); });
    };
    EXPECT_EQ(refusal(100), "");
    EXPECT_THAT(refusal(90), AllOf(HasSubstr("rank 2 on "), HasSubstr("has 90 training samples, 40 validation samples"),
                                   HasSubstr("has 100 training samples")));
  });
}

}  // namespace
}  // namespace ddprun
