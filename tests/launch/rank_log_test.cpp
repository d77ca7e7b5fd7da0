// SPDX-License-Identifier: MIT
#include "launch/rank_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ddprun {
namespace {

using ::testing::ElementsAre;

TEST(LineCutter, CutsWhateverThePiecesAre) {
  for (size_t size = 1; size < 12; ++size) {
    const std::string text = "one\n\ntwo\nthree";
    std::vector<std::string> lines;
    const auto take = [&](std::string_view line) { lines.emplace_back(line); };
    LineCutter cutter;
    for (size_t at = 0; at < text.size(); at += size) cutter.feed(std::string_view(text).substr(at, size), take);
    cutter.end(take);
    EXPECT_THAT(lines, ElementsAre("one", "", "two", "three")) << "pieces of " << size;
  }
}

TEST(LineCutter, EndlessLineIsCut) {
  size_t lines = 0;
  LineCutter cutter;
  for (int i = 0; i < 100; ++i) cutter.feed(std::string(10'000, 'x'), [&](std::string_view) { ++lines; });
  EXPECT_GT(lines, 10U);
}

TEST(LogFile, WarnsOnceWhereItCannotBeOpened) {
  std::vector<std::string> warnings;
  LogFile log("/dev/null/rank_0.log", [&](const std::string& text) { warnings.push_back(text); });
  log.append("a\n");
  log.append("b\n");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], ::testing::HasSubstr("/dev/null/rank_0.log"));
}

TEST(LastLines, KeepsTheCallsThatLedToACrashBesideTen) {
  LastLines last;
  for (int i = 0; i < 25; ++i) last.add(std::to_string(i));
  for (int i = 0; i < 15; ++i) last.add("net.so(+0x10)[0x20]");
  EXPECT_EQ(last.lines().size(), 25U);
  EXPECT_EQ(last.lines().front(), "15");
}

TEST(LastLines, KeepsTen) {
  LastLines last;
  for (int i = 0; i < 25; ++i) last.add(std::to_string(i));
  EXPECT_EQ(last.lines().size(), 10U);
  EXPECT_EQ(last.lines().front(), "15");
}

}  // namespace
}  // namespace ddprun
