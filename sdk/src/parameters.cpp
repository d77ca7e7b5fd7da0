// SPDX-License-Identifier: MIT
#include <ddprun/parameters.h>

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

}  // namespace ddprun
