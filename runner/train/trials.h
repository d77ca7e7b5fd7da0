// SPDX-License-Identifier: MIT
// Finds by trial before the first step: the memory format, and how many samples fit into a micro-batch.
#pragma once

#include "comm/communicator.h"
#include "comm/device_backend.h"
#include "config/experiment.h"
#include "train/precision.h"
#include "train/train_step.h"

#include <ddprun/dataset.h>
#include <ddprun/model.h>

#include <cstdint>

namespace ddprun {

struct MemoryFormatTrial {
  Model& model;  // on its device, in its precision; no reducer holds its gradients yet
  const Objective& objective;
  const Dataset& dataset;
  Precision precision;
  c10::Device device;
  DeviceBackend* backend;  // null on the CPU
  Communicator& communicator;
  int64_t samples;  // at most, per trial
};

// Finds the faster memory format of this network on this machine, for `trainer.memory_format: auto`, by forward and
// backward in both. Returns the same on all ranks: channels last unless it takes a tenth longer. On the CPU it measures
// processor time, which other programs disturb less than wall time, and a few samples suffice. A network without
// two-dimensional filters is not tried, nor, on the CPU, one that spends less than a tenth of a forward pass in
// convolutions, such as a vision transformer; one that fails in the trial stays as it is, and its first step shows why.
// The filters are left in either format; gradients, buffers and random generators are restored. Collective.
MemoryFormat find_memory_format(const MemoryFormatTrial& trial);

// Finds how many samples fit into memory at once, for `trainer.micro_batch: auto`. Tries forward and backward of `item`
// with its whole part on every rank, then with half of it, and so on until no rank runs out of memory, while holding
// what the optimizer and averages keep from the first step on. Returns the same number on all ranks, and logs it if it
// is less than the whole. Throws UserError if not even one sample fits. Collective; random generators and buffers
// change.
int64_t find_micro_batch(TrainStep& step, const TrainBatch& item, Communicator& communicator, DeviceBackend* backend);

}  // namespace ddprun
