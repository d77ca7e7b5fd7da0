// SPDX-License-Identifier: MIT
// What communicators do on a stream: collectives, and messages from one rank to another.
#pragma once

#include "pretend_gpu/nccl/communicator.h"

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

namespace pretend {

// The addresses are the device's; they are followed when the work runs.
struct Operands {
  const char* send = nullptr;
  char* receive = nullptr;
  std::function<double()> factor = nullptr;  // by which a rank multiplies what it gives; null: 1
};

struct Message {
  bool sends = false;
  int peer = 0;
  char* data = nullptr;
  size_t bytes = 0;
};

// Each is the work of a stream. They return early where the communicator is aborted, and wait for that where the ranks
// do not agree.
void run_collective(ncclComm& comm, Call call, const Operands& operands);
void run_messages(ncclComm& comm, const std::vector<Message>& messages);

}  // namespace pretend
