// SPDX-License-Identifier: MIT
// Averages gradients over the ranks while backward is still running: c10d::Reducer, driven as Python's
// DistributedDataParallel drives it (torch/nn/parallel/distributed.py). No other file knows c10d::Reducer, whose
// constructor changes with every LibTorch release.
//
// With a single rank it only calls loss.backward().
//
// Usage, in each training step on every rank, from the thread that calls backward:
//
//   reducer.before_forward(); ... loss ...; reducer.backward(loss);
//
// (To accumulate, call loss.backward() without the reducer for all micro-batches of a step but the last.) Afterwards
// each parameter's gradient is the mean over the ranks, a view of the reducer's buckets. Drop it after the step: the
// next backward writes its own gradient there, divided on its way.
#pragma once

#include "comm/communicator.h"

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

  // Both throw CommunicationError if another rank is lost; backward() also throws UserError naming parameters without a
  // gradient.
  void before_forward();
  // Calls `computed` when this rank's own gradients are there, before it waits for the others; on a GPU perhaps from
  // another thread.
  void backward(const at::Tensor& loss, const std::function<void()>& computed = nullptr);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;  // null with a single rank
};

}  // namespace ddprun
