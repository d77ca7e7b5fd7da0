// SPDX-License-Identifier: MIT
// Averages gradients over the ranks while backward is still running: c10d::Reducer, driven as Python's
// DistributedDataParallel drives it (torch/nn/parallel/distributed.py). No other file knows c10d::Reducer, whose
// constructor changes with every LibTorch release.
//
// With a single rank it exchanges nothing.
//
// Usage, in each training step on every rank, from the thread that calls backward:
//
//   reducer.start(); reducer.before_forward();
//   for all parts of the step but the last: ... loss ...; reducer.accumulate(loss);
//   ... loss ...; reducer.backward(loss);
//
// Afterwards each parameter's gradient is the mean over the ranks, or the sum over all shards in the order of their
// tree; with owners, that of another rank's parameter is of no use. With several ranks it is a view of the reducer's
// buckets. Drop it after the step: the next backward writes its
// own gradient there.
#pragma once

#include "comm/communicator.h"
#include "comm/shard_exchange.h"

#include <ddprun/optimizer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

struct ReducerOptions {
  bool find_unused_parameters = false;  // the loss may depend on other parameters in every step
  bool static_graph = false;            // the same parameters in every step, in the same order; some perhaps never
  enum class Compression { kNone, kFp16, kBf16 } compression = Compression::kNone;  // of what is sent
  int64_t shards = 0;  // parts of the global batch whose gradients are added in the order of a ShardTree; 0: none
  // The rank that needs each parameter's gradient; empty: all need all. Of two ranks or with shards.
  std::vector<int64_t> owners = {};
};

class GradientReducer {
 public:
  // Takes parameters on their device, without duplicates, equal on all ranks; at least one.
  GradientReducer(const std::vector<NamedParameter>& parameters, const Communicator& communicator,
                  const ReducerOptions& options = {});
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  bool through_host() const;  // Gloo with gradients on a GPU: its work is in no GPU queue

  // Begins a step. With shards, `present` of them have samples, and this rank computes its own in their order; a rank
  // without any computes something, for c10d, and adds nothing. In a whole step all ranks get all gradients, whatever
  // owners there are.
  void start(int64_t present = 0, bool whole = false);

  // Adds the gradients of a part of the step that is not exchanged: not the last, or of this rank alone.
  void accumulate(const at::Tensor& loss);

  // Both throw CommunicationError if another rank is lost; backward() also throws UserError naming parameters without a
  // gradient.
  void before_forward();
  // Calls `computed` when this rank's own gradients are there, before it waits for the others; on a GPU perhaps from
  // another thread.
  void backward(const at::Tensor& loss, const std::function<void()>& computed = nullptr);

 private:
  class Impl;
  int64_t shards_;
  World world_;
  std::unique_ptr<PartSums> sums_;         // before the reducer, whose exchange reads it
  std::shared_ptr<const ShardTree> tree_;  // with shards, that of the step
  std::unique_ptr<Impl> impl_;             // null with a single rank
};

}  // namespace ddprun
