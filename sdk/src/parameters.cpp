// SPDX-License-Identifier: MIT
#include <ddprun/parameters.h>

#include <torch/types.h>

#include <unordered_set>

namespace ddprun {

std::vector<NamedParameter> trainable_parameters(const torch::nn::Module& model) {
  std::vector<NamedParameter> parameters;
  std::unordered_set<c10::TensorImpl*> seen;
  for (const auto& entry : model.named_parameters()) {
    const bool fresh = seen.insert(entry.value().unsafeGetTensorImpl()).second;
    if (fresh && entry.value().requires_grad()) parameters.push_back({entry.key(), entry.value()});
  }
  return parameters;
}

void cast_floating_point(torch::nn::Module& model, c10::ScalarType type) {
  const torch::NoGradGuard no_gradients;
  for (const auto& tensors : {model.parameters(), model.buffers()}) {
    for (const auto& tensor : tensors) {
      if (tensor.is_floating_point()) tensor.set_data(tensor.to(type));
    }
  }
}

}  // namespace ddprun
