// SPDX-License-Identifier: MIT
#include "base/spawn.h"
#include "base/terminal.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <sstream>
#include <string>

namespace ddprun {
namespace {

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(fd, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
  return text;
}

TEST(TerminalWriter, WaitsForAReaderWithoutBlocking) {
  Pipe pipe = make_pipe();
  TerminalWriter writer(pipe.write.get());
  const std::string line(1000, 'x');
  for (int i = 0; i < 500; ++i) writer.line(line);  // far beyond a pipe's 64 KiB
  EXPECT_TRUE(writer.waiting());
  std::string text = read_all(pipe.read.get());
  while (writer.waiting()) {
    writer.flush();
    text += read_all(pipe.read.get());
  }
  EXPECT_EQ(text.size(), 500U * 1001U);
}

TEST(TerminalWriter, DropsTheOldestOfTooMany) {
  Pipe pipe = make_pipe();
  {
    TerminalWriter writer(pipe.write.get());
    for (int i = 0; i < 20'000; ++i) writer.line("line " + std::to_string(i));
    while (writer.waiting()) {
      writer.flush();
      const auto text = read_all(pipe.read.get());
      if (!writer.waiting()) {
        EXPECT_TRUE(text.ends_with("line 19999\n"));
      }
    }
  }
  EXPECT_EQ(read_all(pipe.read.get()), "");
}

TEST(TerminalWriter, GoneReaderIsNoError) {
  Pipe pipe = make_pipe();
  ::signal(SIGPIPE, SIG_IGN);
  pipe.read.reset();
  TerminalWriter writer(pipe.write.get());
  writer.line("to nobody");
  EXPECT_FALSE(writer.waiting());
  ::signal(SIGPIPE, SIG_DFL);
}

TEST(TerminalText, LinesThatAreTooWideBreakBetweenWords) {
  EXPECT_EQ(fitted("fits in it", 10), "fits in it");
  EXPECT_EQ(fitted("rank 1: the dataset has no validation split", 24),
            "rank 1: the dataset has\n  no validation split");
  EXPECT_EQ(fitted("two words", 10, 5), "two\n  words") << "after a prefix";
  EXPECT_EQ(fitted("first\n  log: /a/path/that/is/too/wide\nlast", 12),
            "first\n  log:\n  /a/path/that/is/too/wide\nlast");
  EXPECT_EQ(fitted("größer größer", 13), "größer größer");
  EXPECT_EQ(fitted("", 10), "");
}

TEST(TerminalText, CommandsStayWhole) {
  EXPECT_EQ(fitted("resume with: ddprun resume outputs/run trainer.max_epochs=3", 30),
            "resume with:\n  ddprun resume outputs/run trainer.max_epochs=3");
  EXPECT_EQ(fitted("it is saved; `ddprun resume` finishes it", 24), "it is saved;\n  `ddprun resume`\n  finishes it");
}

TEST(TerminalText, NoLineOfNarrowWordsIsWiderThanTheTerminal) {
  const std::string text = "a few words of which none is wider than ten columns, in a line of many";
  for (size_t columns = 12; columns < 80; ++columns) {
    std::istringstream lines(fitted(text, columns));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), columns) << line;
  }
}

}  // namespace
}  // namespace ddprun
