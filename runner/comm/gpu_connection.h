// SPDX-License-Identifier: MIT
// Checks before the first collective on GPUs: no two ranks share one, and all of them are connected.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ddprun {

// A rank's GPU.
struct GpuUse {
  std::string machine;      // as NCCL distinguishes machines
  std::string host;         // the machine's name
  std::string gpu;          // DeviceBackend::identity(), unique on a machine; empty: unknown
  std::string description;  // "NVIDIA H200, 139 GiB"
  std::string visible;      // CUDA_VISIBLE_DEVICES; may be empty
};

// Returns this process's.
GpuUse gpu_use(const std::string& identity, const std::string& description);

std::string to_text(const GpuUse& use);
GpuUse gpu_use_of(const std::string& text);

// Throws UserError if two of the ranks, given in order, have the same GPU: NCCL refuses that.
void require_own_gpus(const std::vector<GpuUse>& ranks);

struct ConnectPatience {
  std::string address;  // this machine's address for the other ranks, to report
  double warn_seconds = 60;
  double timeout_seconds = 1800;
};

// Calls `connect` and waits for it, with a warning after some time. Here NCCL can neither be interrupted nor has a
// timeout of its own, so it runs in a thread, which is left behind if this throws CommunicationError because the time
// is up. What `connect` throws passes through.
void connect_within(const ConnectPatience& patience, const std::function<void()>& connect);

}  // namespace ddprun
