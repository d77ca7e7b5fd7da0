// SPDX-License-Identifier: MIT
// What c10d remembers of this process's latest collectives (TORCH_FR_BUFFER_SIZE of them, by default 2000): which were
// begun, which are done, with which shapes.
#pragma once

#include <string>

namespace ddprun {

struct FlightRecord {
  std::string pickled;    // all, as torchfrtrace of PyTorch's wheel reads it: of NCCL, empty for Gloo
  std::string under_way;  // those that are not done, and the number of the last one that was begun, as JSON
};

// Of the collectives on the CPU. Threads: any.
FlightRecord gloo_flight_record();

}  // namespace ddprun
