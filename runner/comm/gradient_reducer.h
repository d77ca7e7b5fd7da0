// SPDX-License-Identifier: MIT
// Averages gradients over the ranks while backward still runs: c10d::Reducer, driven as Python's
// DistributedDataParallel drives it (torch/nn/parallel/distributed.py). The one file that knows c10d::Reducer, whose
// constructor changes with every LibTorch release.
//
// With one rank alone it does nothing but call loss.backward().
//
// Around each training step on every rank, from the thread that calls backward:
//
//   reducer.before_forward(); ... loss ...; reducer.backward(loss);
//
// (or, to accumulate, loss.backward() for all passes of a step but the last, without the reducer.) Afterwards each
// parameter's gradient is the mean over the ranks, a view of the reducer's buckets. Drop it after the step: the next
// backward's own is written there, divided on its way.
#pragma once

#include "comm/communicator.h"

#include <ddprun/optimizer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

struct ReducerOptions {
  bool find_unused_parameters = false;  // the loss may leave out parameters, others in every step
  bool static_graph = false;            // the same parameters in every step, in the same order, some perhaps never
  enum class Compression { kNone, kFp16, kBf16 } compression = Compression::kNone;  // of what is sent
};

class GradientReducer {
 public:
  // Parameters on their device, without duplicates, equal on all ranks; at least one.
  GradientReducer(const std::vector<NamedParameter>& parameters, const Communicator& communicator,
                  const ReducerOptions& options = {});
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  bool through_host() const;  // Gloo, with gradients on a GPU: what it does is in no queue of the GPU's

  // Both throw CommunicationError where another rank is lost; backward() also UserError naming the parameters that got
  // no gradient.
  void before_forward();
  // `computed` is called when this rank's own gradients are there, before it waits for the others; on a GPU perhaps
  // from another thread.
  void backward(const at::Tensor& loss, const std::function<void()>& computed = nullptr);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;  // null: one rank alone
};

}  // namespace ddprun
