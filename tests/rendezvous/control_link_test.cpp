// SPDX-License-Identifier: MIT
#include "rendezvous/control_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Liveness, WhoIsNotHeardOfWithinTheTimeoutIsSilent) {
  Liveness liveness(10);
  const Liveness::Time start(std::chrono::hours(1));
  liveness.seen(1, start);
  liveness.seen(2, start);
  for (int second = 1; second < 10; ++second) {
    liveness.seen(2, start + seconds(second));
    EXPECT_THAT(liveness.silent(start + seconds(second)), IsEmpty());
  }
  EXPECT_THAT(liveness.silent(start + seconds(10)), ElementsAre(1));
  liveness.forget(1);
  EXPECT_THAT(liveness.silent(start + seconds(11)), IsEmpty());
}

TEST(Liveness, NobodyIsSilentBecauseThisProcessStoodStill) {
  Liveness liveness(10);
  const Liveness::Time start(std::chrono::hours(1));
  liveness.seen(1, start);
  EXPECT_THAT(liveness.silent(start), IsEmpty());
  EXPECT_THAT(liveness.silent(start + seconds(60)), IsEmpty());
  EXPECT_THAT(liveness.silent(start + seconds(64)), IsEmpty());
  EXPECT_THAT(liveness.silent(start + seconds(68)), IsEmpty());
  EXPECT_THAT(liveness.silent(start + seconds(70)), ElementsAre(1));
}

}  // namespace
}  // namespace ddprun
