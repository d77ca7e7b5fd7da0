// SPDX-License-Identifier: MIT
// The ranks of a run as one object: collectives that every rank must call in the same order, from its training thread.
//
// CPU tensors go through Gloo, CUDA tensors through NCCL, or where it is asked for through Gloo. With a world of one
// every call is a no-op and nothing is opened. A failed collective throws CommunicationError.
#pragma once

#include "base/communication_error.h"
#include "base/world.h"

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace c10d {
class Backend;
class ProcessGroup;
}  // namespace c10d

namespace ddprun {

class DeviceBackend;

struct CommunicatorOptions {
  World world;
  c10::intrusive_ptr<c10d::Store> store;   // unused with a world of one
  std::shared_ptr<DeviceBackend> backend;  // of the GPUs; null on the CPU
  bool gloo = false;                       // on GPUs too, through host memory
  double timeout_seconds = 1800;           // of each collective
  std::string address = "127.0.0.1";       // this machine's, where the other ranks reach Gloo
};

// NCCL's timeout where the launcher ends the attempt when a rank stands still for `hang_seconds` (0: it does not).
// NCCL's clock goes on while the process is stopped (Ctrl-Z), so that a long pause would end the run on waking: where
// the launcher notices hangs first, NCCL has a day.
double gpu_timeout_seconds(double timeout_seconds, double hang_seconds);

// A running sum over all ranks; take() waits for it.
class PendingSum {
 public:
  PendingSum(at::Tensor values, std::function<void()> wait) : values_(std::move(values)), wait_(std::move(wait)) {}

  at::Tensor take() {
    if (wait_) wait_();
    return values_;
  }

 private:
  at::Tensor values_;
  std::function<void()> wait_;
};

class Communicator {
 public:
  explicit Communicator(const CommunicatorOptions& options);
  Communicator(const World& world, c10::intrusive_ptr<c10d::ProcessGroup> group);  // one that the caller has made
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Connects the ranks' GPUs, before their first collective; without GPUs, or with Gloo, it does nothing. Throws
  // UserError where two ranks have the same GPU, CommunicationError where they are not connected in time.
  void connect_gpus(double warn_seconds = 60);

  // From now on the launcher looks for hangs.
  void leave_hangs_to_launcher(double hang_seconds);

  const World& world() const { return world_; }
  bool alone() const { return world_.size == 1; }

  void sum(at::Tensor& values);                     // in place
  PendingSum start_sum(at::Tensor values);          // the caller leaves `values` alone until take()
  void broadcast(std::vector<at::Tensor> tensors);  // rank 0's content into everybody's, in place
  void barrier();

  // Every rank's text, in the order of ranks, on every rank.
  std::vector<std::string> gather_texts(const std::string& mine);

  std::string broadcast_text(const std::string& text);  // rank 0's, on every rank

  // For c10d's own classes; null with a world of one.
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }

 private:
  World world_;
  CommunicatorOptions options_;
  c10::intrusive_ptr<c10d::Backend> nccl_;  // null without
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

// The rendezvous of one machine: a file that all its workers see, in a folder that only the user may enter.
c10::intrusive_ptr<c10d::Store> file_store(const std::string& path, int64_t world_size);

}  // namespace ddprun
