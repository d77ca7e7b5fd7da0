// SPDX-License-Identifier: MIT
// How many cores this process may use: a job in a container or under Slurm has seldom all of the machine's.
#pragma once

#include <cstdint>
#include <filesystem>

namespace ddprun {

// Those of its affinity mask, and of CPU time what its cgroups grant, in whole cores; at least 1.
int64_t usable_cores();

// CPU time that the cgroups of this process and those above them grant (v2's cpu.max, v1's cpu.cfs_quota_us), in cores;
// infinity where they do not limit it. `root` is where /proc and the cgroups are mounted.
double granted_cores(const std::filesystem::path& root = "/");

}  // namespace ddprun
