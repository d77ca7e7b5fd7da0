// SPDX-License-Identifier: MIT
#include "metrics/step_timer.h"

#include "metrics/system_metrics.h"
#include "support/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun {
namespace {

// Busy for a while that the clock cannot take for none.
void work() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
  while (std::chrono::steady_clock::now() < end) continue;
}

TEST(StepTimer, EachMomentCountsOnceForThePhaseThatWasBegunLast) {
  StepTimer clock(nullptr);
  clock.begin(StepPhase::kForward);
  work();
  clock.begin(StepPhase::kWait);
  work();
  const auto seconds = clock.take();
  EXPECT_GE(seconds[StepPhase::kForward], 0.002);
  EXPECT_GE(seconds[StepPhase::kWait], 0.002);
  EXPECT_EQ(seconds[StepPhase::kData], 0);
  EXPECT_DOUBLE_EQ(seconds.total(), seconds.computing());
  work();
  const auto more = clock.take();  // of the phase that continues
  EXPECT_GE(more[StepPhase::kWait], 0.002);
  EXPECT_EQ(more[StepPhase::kForward], 0);
  clock.pause();
  clock.take();
  work();
  EXPECT_EQ(clock.take().total(), 0) << "a pause counts for nobody";
}

// A timer as a GPU has one: its marks lie a second apart.
class SecondTimer final : public DeviceTimer {
 public:
  void mark() override { ++marks_; }
  std::vector<double> take() override {
    const std::vector<double> seconds(marks_ - 1, 1.0);
    marks_ = 1;
    return seconds;
  }

 private:
  size_t marks_ = 0;
};

TEST(StepTimer, WithADevicesTimerItsTimesCount) {
  StepTimer clock(std::make_unique<SecondTimer>());
  for (int step = 0; step < 2; ++step) {
    clock.begin(StepPhase::kForward);
    clock.begin(StepPhase::kBackward);
    clock.begin(StepPhase::kOther);
  }
  const auto first = clock.take();  // its own mark ends the last phase
  EXPECT_EQ(first[StepPhase::kForward], 2);
  EXPECT_EQ(first[StepPhase::kBackward], 2);
  EXPECT_EQ(first[StepPhase::kOther], 2);
  clock.pause();
  clock.begin(StepPhase::kForward);
  const auto second = clock.take();
  EXPECT_EQ(second[StepPhase::kOther], 1);
  EXPECT_EQ(second[StepPhase::kForward], 1);
}

// Counts the marks that it holds.
class CountingTimer final : public DeviceTimer {
 public:
  explicit CountingTimer(size_t& most) : most_(most) {}
  void mark() override { most_ = std::max(most_, ++marks_); }
  std::vector<double> take() override { return std::vector<double>(std::exchange(marks_, 1) - 1, 1.0); }

 private:
  size_t& most_;
  size_t marks_ = 0;
};

TEST(StepTimer, ManyStepsLeaveFewMarksAndTheTimesOfAll) {
  size_t most = 0;
  StepTimer clock(std::make_unique<CountingTimer>(most));
  for (const int steps : {64, 1'000'003, 1}) {
    for (int step = 0; step < steps; ++step) {
      clock.begin(StepPhase::kData);
      clock.begin(StepPhase::kGraph);
      clock.begin(StepPhase::kOther);
    }
    clock.pause();
    const auto seconds = clock.take();
    EXPECT_NEAR(seconds[StepPhase::kGraph], steps, 1e-6 * steps);
    EXPECT_NEAR(seconds.total(), 3 * steps, 1e-6 * steps);
  }
  EXPECT_LT(most, 10'000U);
}

double value_of(const NamedValues& values, const std::string& name) {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  return std::nan("");
}

TEST(SystemMetrics, ARowHasTheMeansAndTheRankWithMostWorkOfItsOwn) {
  testing::on_ranks(3, [](Communicator& ranks) {
    const auto rank = static_cast<double>(ranks.world().rank);
    PhaseSeconds seconds;
    seconds.of[static_cast<size_t>(StepPhase::kForward)] = 10 * (rank + 1);
    seconds.of[static_cast<size_t>(StepPhase::kWait)] = 100 * (3 - rank);  // the first waits longest
    SystemMetrics metrics(nullptr);
    EXPECT_TRUE(metrics.of_ranks().empty());
    const auto row = metrics.row(seconds, 10, ranks);
    EXPECT_DOUBLE_EQ(value_of(row, "forward_seconds"), 2);
    EXPECT_DOUBLE_EQ(value_of(row, "wait_seconds"), 20);
    EXPECT_EQ(value_of(row, "slowest_rank"), 2);
    EXPECT_DOUBLE_EQ(value_of(row, "slowest_rank_seconds"), 3);
    EXPECT_GT(value_of(row, "rss_bytes"), 1e6);
    EXPECT_TRUE(std::isnan(value_of(row, "gpu_percent"))) << "no GPU, no column";
    metrics.row({}, 30, ranks);
    const auto of_ranks = metrics.of_ranks();
    ASSERT_EQ(of_ranks.size(), 3U);
    EXPECT_DOUBLE_EQ(value_of(of_ranks[2], "forward_seconds"), 3.0 * 10 / 40) << "over all steps";
    EXPECT_DOUBLE_EQ(value_of(of_ranks[0], "wait_seconds"), 30.0 * 10 / 40);
    EXPECT_GE(value_of(of_ranks[1], "rss_bytes"), 1e6);
    EXPECT_TRUE(std::isnan(value_of(of_ranks[0], "gpu_percent")));
  });
}

}  // namespace
}  // namespace ddprun
