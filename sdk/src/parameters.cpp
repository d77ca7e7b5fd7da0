// SPDX-License-Identifier: MIT
#include <ddprun/options.h>
#include <ddprun/parameters.h>

#include <fnmatch.h>
#include <torch/types.h>

#include <algorithm>
#include <set>
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

bool name_matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

std::string nearest_pattern(const std::string& pattern, const std::vector<std::string>& names) {
  std::set<std::string> known(names.begin(), names.end());
  for (const auto& name : names) {
    for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      known.insert(name.substr(0, dot) + ".*");
  }
  const auto near = nearest_name(pattern, {known.begin(), known.end()});
  return near.empty() ? "" : "; did you mean " + near + "?";
}

std::string first_names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  if (names.empty()) return "none";
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i ? ", " : "") + names[i];
  return names.size() > kShown ? text + ", ... (" + std::to_string(names.size()) + " in all)" : text;
}

}  // namespace ddprun
