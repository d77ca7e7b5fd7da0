// SPDX-License-Identifier: MIT
// Which order of numbers suits this network on this machine, for `trainer.memory_format: auto`: forward and backward
// are tried in both.
#pragma once

#include "comm/communicator.h"
#include "comm/device_backend.h"
#include "train/precision.h"

#include <ddprun/dataset.h>
#include <ddprun/model.h>

namespace ddprun {

struct MemoryFormatTrial {
  Model& model;  // on its device, in its precision; no reducer holds its gradients yet
  const Objective& objective;
  const Dataset& dataset;
  Precision precision;
  c10::Device device;
  DeviceBackend* backend;  // null on the CPU
  Communicator& communicator;
  int64_t samples;  // at most, in a pass
};

// The same answer on all ranks: channels last unless it takes a tenth longer. On the CPU processor time counts, which
// other programs disturb less than the clock on the wall; a few samples are enough there. A network without filters of
// two dimensions is not tried, and one that fails in the trial stays as it is: its first step tells why. The filters
// are left in either order; gradients, buffers and random generators as they were. Collective.
MemoryFormat find_memory_format(const MemoryFormatTrial& trial);

}  // namespace ddprun
