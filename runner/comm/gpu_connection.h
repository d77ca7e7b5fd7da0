// SPDX-License-Identifier: MIT
// What comes before the first collective of the ranks' GPUs: that no two ranks have the same one, and that all are
// connected.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ddprun {

// A rank's GPU.
struct GpuUse {
  std::string machine;      // as NCCL tells machines apart
  std::string host;         // the machine's name
  std::string gpu;          // DeviceBackend::identity(), by which a machine's GPUs differ; empty: not known
  std::string description;  // "NVIDIA H200, 139 GiB"
  std::string visible;      // CUDA_VISIBLE_DEVICES; may be empty
};

// This process's, on this machine.
GpuUse gpu_use(const std::string& identity, const std::string& description);

std::string to_text(const GpuUse& use);
GpuUse gpu_use_of(const std::string& text);

// Throws UserError where two of the ranks, which are in their order, have the same GPU: NCCL refuses that.
void require_own_gpus(const std::vector<GpuUse>& ranks);

struct ConnectPatience {
  std::string address;  // this machine's for the other ranks, to be told
  double warn_seconds = 60;
  double timeout_seconds = 1800;
};

// Calls `connect` and waits for it, with a warning after some time. NCCL can neither be interrupted nor has it a
// timeout of its own here: so it runs in a thread, which is left behind where this throws CommunicationError because
// the time is over. What `connect` throws passes through.
void connect_within(const ConnectPatience& patience, const std::function<void()>& connect);

}  // namespace ddprun
