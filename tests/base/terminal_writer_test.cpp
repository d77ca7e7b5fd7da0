// SPDX-License-Identifier: MIT
#include "base/spawn.h"
#include "base/terminal.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>

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

}  // namespace
}  // namespace ddprun
