// SPDX-License-Identifier: MIT
// What this process may use of the machine: a job in a container or under Slurm seldom has all of its cores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

// Returns the cores of its affinity mask, and of CPU time what its cgroups grant, in whole cores; at least 1.
int64_t usable_cores();

// CPU time that the cgroups of this process and those above them grant (v2's cpu.max, v1's cpu.cfs_quota_us), in cores;
// infinity where they do not limit it. `root` is where /proc and the cgroups are mounted.
double granted_cores(const std::filesystem::path& root = "/");

struct GpuModel {
  std::string name;
  int capability = 0;  // 75 is 7.5; 0: not known
};

struct GpuDriver {
  std::vector<GpuModel> gpus;  // that CUDA_VISIBLE_DEVICES leaves this process
  int cuda = 0;                // the newest CUDA that it runs: 12040 is 12.4; 0: there is no driver
  std::string problem;         // why it does not start, where it is there and does not; else empty
};

// Asks the driver without a CUDA library of ours.
GpuDriver find_gpu_driver();

}  // namespace ddprun
