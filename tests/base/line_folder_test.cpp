// SPDX-License-Identifier: MIT
#include "base/line_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ddprun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LineFolderTest : public ::testing::Test {
 protected:
  void pass(LineFolder::Clock::duration time) {
    now_ += time;
    folder_.flush(now_);
  }
  void add(int rank, const std::string& line) { folder_.add(rank, line, now_); }

  std::vector<std::string> shown_;
  LineFolder folder_{[this](const std::string& line) { shown_.push_back(line); }};
  LineFolder::Clock::time_point now_{seconds(1000)};
};

TEST_F(LineFolderTest, Rank0IsShownAtOnceOthersAfterTheWindow) {
  add(0, "first");
  add(1, "second");
  EXPECT_THAT(shown_, ElementsAre("first"));
  EXPECT_EQ(folder_.due(), now_ + LineFolder::kWindow);
  pass(LineFolder::kWindow);
  EXPECT_THAT(shown_, ElementsAre("first", "[rank 1] second"));
  EXPECT_EQ(folder_.due(), std::nullopt);
}

TEST_F(LineFolderTest, SameLinesWithinTheWindowAreOneWithTheRanks) {
  for (const int rank : {3, 1, 2, 7}) add(rank, "rank " + std::to_string(rank) + ": warning: x");
  pass(LineFolder::kWindow);
  EXPECT_THAT(shown_, ElementsAre("[ranks 1-3,7] warning: x"));
}

TEST_F(LineFolderTest, OrderOfDifferentLinesIsKept) {
  for (const int rank : {1, 2}) {
    add(rank, "a");
    add(rank, "b");
  }
  pass(LineFolder::kWindow);
  EXPECT_THAT(shown_, ElementsAre("[ranks 1-2] a", "[ranks 1-2] b"));
}

TEST_F(LineFolderTest, Rank0SilencesTheSameOfOthersBeforeAndAfter) {
  add(1, "x");
  add(0, "x");
  pass(seconds(1));
  add(2, "x");
  pass(seconds(1));
  EXPECT_THAT(shown_, ElementsAre("x"));
  pass(LineFolder::kMemory);
  add(2, "x");
  pass(seconds(1));
  EXPECT_THAT(shown_, ElementsAre("x", "[rank 2] x"));
}

TEST_F(LineFolderTest, BabbleIsCutWithACount) {
  for (int line = 0; line < 1000; ++line) add(0, "line " + std::to_string(line));
  EXPECT_EQ(shown_.size(), 100U);
  pass(seconds(1));
  EXPECT_EQ(shown_.back(), "[rank 0] ... 900 more lines in logs/rank_0.log");
  add(0, "later");
  EXPECT_EQ(shown_.back(), "later");
}

TEST_F(LineFolderTest, BabbleOfAnotherRankLeavesRank0Heard) {
  for (int line = 0; line < 1000; ++line) add(1, "line " + std::to_string(line));
  add(0, "heard");
  EXPECT_THAT(shown_, ElementsAre("heard"));
  pass(LineFolder::kWindow);
  EXPECT_EQ(shown_.size(), 101U);
}

TEST_F(LineFolderTest, FinishShowsWhatWaits) {
  add(1, "last words");
  folder_.flush(now_ + milliseconds(1));
  EXPECT_THAT(shown_, IsEmpty());
  folder_.finish();
  EXPECT_THAT(shown_, ElementsAre("[rank 1] last words"));
}

TEST(JoinRanks, WritesRunsAsRanges) {
  EXPECT_EQ(join_numbers({}), "");
  EXPECT_EQ(join_numbers({4}), "4");
  EXPECT_EQ(join_numbers({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

}  // namespace
}  // namespace ddprun
