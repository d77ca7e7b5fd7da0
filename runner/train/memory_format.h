// SPDX-License-Identifier: MIT
// The order in which the numbers of images and of their filters lie in memory: trainer.memory_format.
#pragma once

#include "comm/communicator.h"
#include "comm/device_backend.h"
#include "config/experiment.h"
#include "train/precision.h"

#include <ddprun/dataset.h>
#include <ddprun/model.h>

#include <ATen/core/Tensor.h>

#include <string>

namespace ddprun {

// What word_of() has said; any other word means channels first.
MemoryFormat memory_format_of(const std::string& word);

// A tensor of four dimensions with its numbers in this order; the tensor itself where they lie so. One channel lies the
// same in both, but kernels take the order from the strides: those are set in any case.
at::Tensor in_memory_format(const at::Tensor& tensor, MemoryFormat memory_format);

// Which order of numbers suits this network on this machine, for `trainer.memory_format: auto`: forward and backward
// are tried in both.

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
