// SPDX-License-Identifier: MIT
// The ranks of a run as one object, with collectives that every rank must call in the same order, from its training
// thread.
//
// CPU tensors use Gloo; CUDA tensors use NCCL, or Gloo on request. In a world of one every call is a no-op and nothing
// is opened. A failed collective throws CommunicationError.
#pragma once

#include "base/communication_error.h"
#include "base/world.h"

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
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
  c10::intrusive_ptr<c10d::Store> store;   // unused with one rank
  std::shared_ptr<DeviceBackend> backend;  // for GPUs; null on the CPU
  bool gloo = false;                       // use Gloo for GPUs too, through host memory
  double timeout_seconds = 1800;           // for each collective
  std::string address = "127.0.0.1";       // where the other ranks reach this machine's Gloo
};

// Returns NCCL's timeout. If the launcher ends the attempt after a rank has stalled for `hang_seconds` (0: it does
// not), that is a day: NCCL's clock keeps running while the process is stopped (Ctrl-Z), and a long pause would
// otherwise end the run on waking.
double gpu_timeout_seconds(double timeout_seconds, double hang_seconds);

// What a collective in progress makes of these values; take() waits for it, on a GPU the stream does.
class PendingTensor {
 public:
  PendingTensor(at::Tensor values, std::function<void()> wait) : values_(std::move(values)), wait_(std::move(wait)) {}

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
  Communicator(const World& world, c10::intrusive_ptr<c10d::ProcessGroup> group);  // takes an existing group
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Connects the ranks' GPUs, before their first collective; does nothing without GPUs or with Gloo. Throws UserError
  // if two ranks have the same GPU, CommunicationError if they are not connected in time.
  void connect_gpus(double warn_seconds = 60);

  // From now on, the launcher looks for hangs.
  void leave_hangs_to_launcher(double hang_seconds);

  const World& world() const { return world_; }
  bool is_distributed() const { return world_.size > 1; }

  void sum(at::Tensor& values);                     // in place
  void broadcast(std::vector<at::Tensor> tensors);  // copies rank 0's content to all, in place
  void barrier();

  // Their values, which are contiguous, must not be touched until take(). The second copies those of rank `from` to
  // all, in place.
  PendingTensor start_sum(at::Tensor values);
  PendingTensor start_broadcast(at::Tensor values, int64_t from);

  // Copy the contents of contiguous tensors on the host from one rank to another, which calls the other function with
  // tensors of the same forms.
  void send(const std::vector<at::Tensor>& tensors, int64_t to);
  void receive(const std::vector<at::Tensor>& tensors, int64_t from);

  // Returns every rank's text, in the order of ranks, on every rank.
  std::vector<std::string> gather_texts(const std::string& mine);

  std::string broadcast_text(const std::string& text);  // returns rank 0's, on every rank

  // Returns the group for c10d's own classes; null with one rank.
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }

 private:
  World world_;
  int messages_ = 0;  // of start_broadcast(), which differ by their numbers
  CommunicatorOptions options_;
  c10::intrusive_ptr<c10d::Backend> nccl_;  // null without GPUs
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

// Returns a store for one machine: a file that all its workers see, in a folder that only the user may enter.
c10::intrusive_ptr<c10d::Store> file_store(const std::string& path, int64_t world_size);

// Makes ranks succeed or fail together, through the store alone, so that a thread other than the training thread may
// use it without touching that thread's collectives.

// Used from one thread at a time. A meeting costs each rank three or four store requests, however many ranks there are.
class ErrorExchange {
 public:
  // `store` is for this object alone, under a prefix of its own; unused with one rank.
  ErrorExchange(c10::intrusive_ptr<c10d::Store> store, int64_t rank, int64_t world_size, double timeout_seconds);

  // Blocks until all ranks have called it equally often. Each passes its own error text (empty if all went well); all
  // get the same non-empty one, if any, or the empty text. Throws CommunicationError if the others do not come in time.
  std::string agree(const std::string& my_error);

  // Leaves rank 0 a text for after the next agree(); one for each. take() returns there what a rank has left before
  // the last agree(), once. For several ranks. Both throw CommunicationError if the store cannot be reached.
  void leave(const std::string& text);
  std::string take(int64_t rank);

 private:
  std::string meet(const std::string& my_error);

  c10::intrusive_ptr<c10d::Store> store_;
  int64_t rank_, world_size_;
  std::chrono::milliseconds timeout_;
  int64_t meetings_ = 0;
};

}  // namespace ddprun
