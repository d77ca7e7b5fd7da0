// SPDX-License-Identifier: MIT
// The processor cores that a process may run on, by their numbers.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace ddprun {

// Returns the affinity mask of a process (0: of the caller), ascending; empty if it cannot be read.
std::vector<int> cores_of_process(pid_t pid);

// Returns a mask for sched_setaffinity() with these cores; empty for none.
std::vector<cpu_set_t> mask_of_cores(const std::vector<int>& cores);

// Reads a list as the kernel and join_numbers() write it, "0-35,72-107"; what is not a number ends it.
std::vector<int> read_cores(const std::string& list);

}  // namespace ddprun
