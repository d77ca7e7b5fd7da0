// SPDX-License-Identifier: MIT
#include "base/cores.h"

#include "base/line_folder.h"
#include "base/program.h"
#include "base/spawn.h"
#include "launch/machine.h"
#include "support/temporary_folder.h"

#include <cmath>
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

TEST(Cores, AProcessRunsOnThoseThatItIsStartedWithAndThisMachineHas) {
  const auto own = cores_of_process(0);
  const auto cores_of_one = [](int core) {
    const auto pid = spawn({.command = {"/bin/sleep", "600"}, .cores = {core}});
    const auto cores = cores_of_process(pid);
    ::kill(pid, SIGKILL);
    wait_for(pid);
    EXPECT_TRUE(cores_of_process(pid).empty()) << "it is gone";
    return cores;
  };
  EXPECT_EQ(cores_of_one(own.back()), std::vector<int>{own.back()});
  EXPECT_EQ(cores_of_one(16000), own);
}

// The files of a made machine.
class GrantedCores : public FolderTest {
 protected:
  void write(const std::string& file, const std::string& text) const { write_bytes(folder_ / file, text + "\n"); }

  void mount(const std::string& groups, const std::string& mountinfo) const {
    write("proc/self/cgroup", groups);
    write("proc/self/mountinfo", mountinfo);
  }

  double granted() const { return granted_cores(folder_); }
};

constexpr auto kV2 = "24 18 0:21 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";

TEST_F(GrantedCores, TheLeastOfAGroupAndThoseAboveItCounts) {
  mount("0::/job_12/step_0/task_1", kV2);
  write("sys/fs/cgroup/job_12/step_0/task_1/cpu.max", "max 100000");
  write("sys/fs/cgroup/job_12/step_0/cpu.max", "800000 100000");
  write("sys/fs/cgroup/job_12/cpu.max", "250000 100000");
  EXPECT_EQ(granted(), 2.5);
}

TEST_F(GrantedCores, AContainersOwnGroupLiesAtTheTopOfItsMount) {
  mount("0::/", kV2);
  write("sys/fs/cgroup/cpu.max", "400000 100000");
  EXPECT_EQ(granted(), 4);
}

TEST_F(GrantedCores, TheFirstVersionHasAHierarchyOfItsOwnForCpuTime) {
  mount("5:memory:/docker/1f\n4:cpu,cpuacct:/docker/1f/x",
        "30 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "31 24 0:28 /docker/1f /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct");
  write("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000");
  EXPECT_TRUE(std::isinf(granted()));
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000");
  EXPECT_EQ(granted(), 3);
}

TEST_F(GrantedCores, WithoutGroupsThereIsNoLimit) {
  EXPECT_TRUE(std::isinf(granted()));
  mount("0::/gone\nnonsense", kV2);
  EXPECT_TRUE(std::isinf(granted()));
}

using CoresNextTo = GrantedCores;

TEST_F(CoresNextTo, AGpuAreThoseOfTheKernelsListThatThisProcessMayUse) {
  const auto own = cores_of_process(0);
  if (own.size() < 2) GTEST_SKIP() << "there is one core only";
  const auto list = [&](const std::string& text) {
    write("sys/bus/pci/devices/0000:0f:00.0/local_cpulist", text);
    return cores_next_to("0000:0f:00.0", folder_);
  };
  EXPECT_EQ(list(std::to_string(own[1]) + ",9000-9035"), std::vector<int>{own[1]});
  EXPECT_TRUE(list(join_numbers({own.begin(), own.end()})).empty()) << "all: there is nothing to choose";
  EXPECT_TRUE(list("9000-9035").empty()) << "none of them is ours";
  EXPECT_TRUE(list("").empty());
  EXPECT_TRUE(cores_next_to("0000:10:00.0", folder_).empty());
  EXPECT_TRUE(cores_next_to("", folder_).empty());
}

}  // namespace
}  // namespace ddprun
