// SPDX-License-Identifier: MIT
#include "agent/machine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// The files of a made machine.
class GrantedCores : public ::testing::Test {
 protected:
  GrantedCores() {
    std::string name = (fs::temp_directory_path() / "ddprun_cores_XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~GrantedCores() override { fs::remove_all(root_); }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }

  void mount(const std::string& groups, const std::string& mountinfo) const {
    write("proc/self/cgroup", groups);
    write("proc/self/mountinfo", mountinfo);
  }

  double granted() const { return granted_cores(root_); }

  fs::path root_;
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

}  // namespace
}  // namespace ddprun
