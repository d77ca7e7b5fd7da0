// SPDX-License-Identifier: MIT
#include "launch/rank_log.h"

#include "base/spawn.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  log.flush();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], HasSubstr("/dev/null/rank_0.log"));
}

using LogFileInAFolder = FolderTest;

// A FIFO that nobody reads hangs as a network's file system does, and continues as soon as somebody reads.
TEST_F(LogFileInAFolder, FileSystemThatHangsKeepsNobodyWaitingAndTheGapIsMarked) {
  const auto path = folder_ / "rank_0.log";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
  ASSERT_EQ(::fcntl(reader.get(), F_SETFL, 0), 0);
  std::vector<std::string> warnings;
  {
    LogFile log(path, [&](const std::string& text) { warnings.push_back(text); });
    for (int i = 0; i < 20; ++i) log.append(std::string(1'000'000, 'x'));
  }
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], HasSubstr("hangs"));

  std::string text;
  std::array<char, 65536> buffer;
  for (ssize_t got = 1; got > 0; text.append(buffer.data(), static_cast<size_t>(got)))
    got = ::read(reader.get(), buffer.data(), buffer.size());
  const auto written = static_cast<size_t>(std::count(text.begin(), text.end(), 'x'));
  EXPECT_THAT(text, HasSubstr("[ddprun: " + std::to_string(20'000'000 - written) + " bytes are missing here"));
}

TEST(LastLines, KeepsTenAndTheCallsThatLedToACrash) {
  LastLines last;
  for (int i = 0; i < 25; ++i) last.add(std::to_string(i));
  EXPECT_EQ(last.lines().size(), 10U);
  for (int i = 0; i < 15; ++i) last.add("net.so(+0x10)[0x20]");
  EXPECT_EQ(last.lines().size(), 25U);
  EXPECT_EQ(last.lines().front(), "15");
}

}  // namespace
}  // namespace ddprun
