// SPDX-License-Identifier: MIT
#include "launch/orphans.h"

#include "base/run_files.h"
#include "base/spawn.h"

#include <ddprun/file_error.h>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace ddprun {
namespace {

pid_t start_child(const std::string& mark) {
  return spawn({.command = {"/bin/sleep", "1000"}, .environment = {"MARK=" + mark}});
}

TEST(Orphans, ThoseWithTheMarkEndAndNoOthers) {
  const auto marked = start_child("/tmp/a-run"), other = start_child("/tmp/another");
  end_orphans("/tmp/a-run");
  EXPECT_EQ(::kill(marked, 0), -1) << "ended and reaped";
  EXPECT_EQ(::waitpid(other, nullptr, WNOHANG), 0) << "still runs";
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

TEST(RunFiles, OneThatCannotBeReadIsNotTakenForAnEmptyOne) {
  EXPECT_THROW(content_of("/proc/self"), FileError);  // reading a folder fails, as that of a broken disk does
  EXPECT_EQ(content_of("/proc/self/missing"), "");
  EXPECT_NE(content_of("/proc/self/stat"), "");
}

}  // namespace
}  // namespace ddprun
