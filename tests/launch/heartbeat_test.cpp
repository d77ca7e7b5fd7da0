// SPDX-License-Identifier: MIT
#include "launch/heartbeat.h"

#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <fstream>

namespace ddprun {
namespace {

using Heartbeat = FolderTest;

TEST_F(Heartbeat, TheLastBeatIsRead) {
  const auto file = folder_ / "heartbeat";
  EXPECT_FALSE(read_beat(file)) << "nobody has made it";
  HeartbeatWriter writer(file);
  ASSERT_TRUE(read_beat(file)) << "it may hang from here on";
  EXPECT_EQ(read_beat(file)->activity, Activity::kStarting);
  writer.beat(Activity::kLoadingData, 3);
  const auto before = std::chrono::steady_clock::now();
  writer.beat(Activity::kComputing, 4);
  const auto beat = read_beat(file);
  ASSERT_TRUE(beat);
  EXPECT_EQ(beat->activity, Activity::kComputing);
  EXPECT_EQ(beat->step, 4);
  EXPECT_GE(beat->at, before);
  EXPECT_LE(beat->at, std::chrono::steady_clock::now());
}

TEST_F(Heartbeat, AFileThatIsNoneTellsNothing) {
  const auto file = folder_ / "heartbeat";
  std::ofstream(file) << "short";
  EXPECT_FALSE(read_beat(file));
}

TEST_F(Heartbeat, BeatsWithoutAPlaceGoNowhere) {
  HeartbeatWriter writer("/dev/null/heartbeat");
  writer.beat(Activity::kComputing, 1);
  EXPECT_FALSE(read_beat("/dev/null/heartbeat"));
}

}  // namespace
}  // namespace ddprun
