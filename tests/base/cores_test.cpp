// SPDX-License-Identifier: MIT
#include "base/cores.h"

#include "base/line_folder.h"
#include "base/spawn.h"

#include <gtest/gtest.h>

#include <sys/wait.h>

#include <csignal>

namespace ddprun {
namespace {

TEST(Cores, AreReadAndWrittenAsTheKernelDoes) {
  EXPECT_EQ(read_cores("0-2,8,70-71"), (std::vector<int>{0, 1, 2, 8, 70, 71}));
  for (const auto* list : {"", "5", "0-71", "0-35,72-107", "1,3,5"}) {
    const auto cores = read_cores(list);
    EXPECT_EQ(join_numbers({cores.begin(), cores.end()}), list);
  }
  EXPECT_TRUE(read_cores("none").empty());
  EXPECT_EQ(read_cores("2-99999999").back(), 16383) << "no kernel has more";
}

TEST(Cores, AProcessRunsOnThoseThatItIsStartedWith) {
  const int last = cores_of_process(0).back();
  const auto pid = spawn({.command = {"/bin/sleep", "600"}, .cores = {last}});
  EXPECT_EQ(cores_of_process(pid), std::vector<int>{last});
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  EXPECT_TRUE(cores_of_process(pid).empty()) << "it is gone";
}

TEST(Cores, ThatThisMachineLacksStopNoProcess) {
  const auto pid = spawn({.command = {"/bin/sleep", "600"}, .cores = {16000}});
  EXPECT_EQ(cores_of_process(pid), cores_of_process(0));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

}  // namespace
}  // namespace ddprun
