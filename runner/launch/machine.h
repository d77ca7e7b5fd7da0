// SPDX-License-Identifier: MIT
// Finds what this process may use of the machine: a job in a container or under Slurm seldom has all of its cores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

// Returns the number of cores in its affinity mask, limited by the CPU time that its cgroups grant, in whole cores; at
// least 1.
int64_t usable_cores();

// Returns the CPU time that the cgroups of this process and those above them grant (v2's cpu.max, v1's
// cpu.cfs_quota_us), in cores; infinity if they do not limit it. `root` is where /proc and the cgroups are mounted.
double granted_cores(const std::filesystem::path& root = "/");

struct GpuModel {
  std::string name;
  int capability = 0;           // 75 is 7.5; 0: unknown
  std::vector<int> cores = {};  // cores_next_to() it; empty: all, or unknown
};

// Returns the numbers of the cores next to a PCI device, as the kernel lists them, of those that this process may run
// on; empty if they are all of these, or unknown. (A GPU's memory may be a NUMA node of its own, without cores: the
// kernel's list knows, the nodes' numbers do not.) `root` is where /sys is mounted.
std::vector<int> cores_next_to(const std::string& bus, const std::filesystem::path& root = "/");

struct GpuDriver {
  std::vector<GpuModel> gpus;  // visible to this process (CUDA_VISIBLE_DEVICES)
  int cuda = 0;                // the newest CUDA it runs: 12040 is 12.4; 0: there is no driver
  std::string problem;         // why an existing driver does not start; else empty
};

// Asks the driver without using a CUDA library of ours.
GpuDriver find_gpu_driver();

}  // namespace ddprun
