// SPDX-License-Identifier: MIT
#include <ddprun/arriving_weights.h>

#include <c10/util/Exception.h>

namespace ddprun {
namespace {

thread_local ArrivingWeights* arriving = nullptr;  // null: there are none

}  // namespace

ArrivingWeights::~ArrivingWeights() = default;

ArrivingWeightsScope::ArrivingWeightsScope(ArrivingWeights& weights) {
  TORCH_CHECK(!arriving, "weights are arriving already");
  arriving = &weights;
}

ArrivingWeightsScope::~ArrivingWeightsScope() { arriving = nullptr; }

bool weights_are_arriving() { return arriving != nullptr; }

void wait_for_weight(const at::Tensor& weight) {
  if (arriving) arriving->wait_for(weight);
}

void wait_for_weights(const torch::nn::Module& module) {
  if (!arriving) return;
  for (const auto& weight : module.parameters()) arriving->wait_for(weight);
}

}  // namespace ddprun
