// SPDX-License-Identifier: MIT
// Waiting for weights that arrive while a forward pass already runs. With trainer.shard_optimizer each worker steps its
// share of the weights, and at the beginning of the next step the others' are still on their way. A model that says so
// by Model::waits_for_weights() waits for each of them where it first reads it:
//
//   at::Tensor forward(const at::Tensor& input) override {
//     ddprun::wait_for_weights(*first_);
//     auto x = first_->forward(input);
//     ddprun::wait_for_weights(*second_);
//     ...
//
// For other models the runner waits for all of them before the forward pass. The results are the same.
#pragma once

#include <ddprun/api.h>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace ddprun {

// Weights that are on their way to this worker.
class DDPRUN_API ArrivingWeights {
 public:
  ArrivingWeights() = default;
  virtual ~ArrivingWeights();
  ArrivingWeights(const ArrivingWeights&) = delete;
  ArrivingWeights& operator=(const ArrivingWeights&) = delete;

  // Returns once a weight has its new value; at once for what is not on its way.
  virtual void wait_for(const at::Tensor& weight) = 0;
};

// While it lives, what this thread waits for is these; they outlive it.
class DDPRUN_API ArrivingWeightsScope {
 public:
  // There must not be another one in this thread.
  explicit ArrivingWeightsScope(ArrivingWeights& weights);
  ~ArrivingWeightsScope();
  ArrivingWeightsScope(const ArrivingWeightsScope&) = delete;
  ArrivingWeightsScope& operator=(const ArrivingWeightsScope&) = delete;
};

// Returns whether this thread may have to wait for weights.
DDPRUN_API bool weights_are_arriving();

// Return once a weight, or those of a module and of all modules in it, have their new values. Called by the thread that
// called step(); on a GPU what the thread computes afterwards waits, and not the thread.
DDPRUN_API void wait_for_weight(const at::Tensor& weight);
DDPRUN_API void wait_for_weights(const torch::nn::Module& module);

}  // namespace ddprun
