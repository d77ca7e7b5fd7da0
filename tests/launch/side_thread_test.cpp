// SPDX-License-Identifier: MIT
#include "launch/side_thread.h"

#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <vector>

namespace ddprun {
namespace {

using std::chrono::milliseconds, std::chrono::seconds;

TEST(SideThread, DoesItsJobsInTheirOrder) {
  SideThread side;
  std::vector<int> done;
  for (int job = 0; job < 3; ++job) side.post([&done, job] { done.push_back(job); });
  ASSERT_TRUE(side.wait_for(seconds(60)));
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(side.busy_for());
}

TEST(SideThread, AJobThatHangsKeepsNobodyWaiting) {
  const auto entered = std::make_shared<std::latch>(1), release = std::make_shared<std::latch>(1);
  {
    SideThread side;
    side.post([entered, release] { entered->count_down(), release->wait(); });
    side.post([] { FAIL() << "it waits behind a job that hangs"; });
    entered->wait();
    EXPECT_FALSE(side.wait_for(milliseconds(1)));
    EXPECT_GE(*side.busy_for(), milliseconds(1));
  }
  release->count_down();
}

}  // namespace
}  // namespace ddprun
