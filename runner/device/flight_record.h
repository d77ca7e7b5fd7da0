// SPDX-License-Identifier: MIT
// c10d's record of this process's latest collectives (TORCH_FR_BUFFER_SIZE of them, by default 2000): which were begun
// and which are done, with their shapes.
#pragma once

#include <string>

namespace ddprun {

struct FlightRecord {
  std::string pickled;    // all of NCCL's, in the format of PyTorch's torchfrtrace; empty for Gloo
  std::string under_way;  // those that are not done, and the number of the last one begun, as JSON
};

// Returns the record of the collectives on the CPU. Safe to call from any thread.
FlightRecord gloo_flight_record();

}  // namespace ddprun
