// SPDX-License-Identifier: MIT
#include "base/line_folder.h"

#include "base/call_lines.h"
#include "base/program.h"

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

TEST(CallLines, AreDistinguishedFromOtherLines) {
  EXPECT_TRUE(is_call_line("/tmp/a (b)/net.so(+0x5a80)[0x7f44636bca80]"));
  EXPECT_TRUE(is_call_line("/usr/lib/libx.so.6(abort+0x12)[0x7f44636bca80]"));
  for (const auto* line :
       {"", "loss (0.5+0x) [a]", "net.so(+0x5a80)", "f(+0xZZ)[0x1]", ")([", "rank 0: SIGSEGV in step() of model"})
    EXPECT_FALSE(is_call_line(line)) << line;
}

TEST(CallLines, NamesAreDemangledAndThoseOfTheProgramLeftOut) {
  const auto program = own_program().string();
  EXPECT_THAT(with_named_calls({"before", "SIGSEGV; the calls that led there:",
                                "/x/libddprun_sdk.so(_ZN6ddprun5Model4stepERKNS_5BatchERKNS_9ObjectiveE+0x3c)[0x7f]",
                                program + "(+0x10)[0x7f]", "/nowhere/net.so(+0x5a80)[0x7f44636bca80]", "after"}),
              ElementsAre("before", "SIGSEGV; the calls that led there:",
                          "  ddprun::Model::step(ddprun::Batch const&, ddprun::Objective const&)",
                          "  /nowhere/net.so(+0x5a80)[0x7f44636bca80]", "after"));
}

}  // namespace
}  // namespace ddprun
