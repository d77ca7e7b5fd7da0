// SPDX-License-Identifier: MIT
#include "train/model_weights.h"

#include "base/log.h"
#include "comm/replicate.h"

#include <ddprun/error.h>

#include <torch/types.h>

#include <set>

namespace ddprun {
void load_weights(const Model& model, const TensorDict& saved, const std::string& where) {
  const torch::NoGradGuard no_gradients;
  std::set<std::string> known;
  for (auto& tensor : state_tensors(model)) {
    known.insert(tensor.name);
    const auto found = saved.find(tensor.name);
    const bool missing = found == saved.end();
    if (missing || found->second.sizes() != tensor.value.sizes()) {
      throw UserError(
          where + " does not fit the model: " + tensor.name +
          (missing ? " is missing in it"
                   : log::text(" is ", found->second.sizes(), " in it and ", tensor.value.sizes(), " in the model")));
    }
    tensor.value.copy_(found->second);
  }
  for (const auto& [name, value] : saved) {
    if (!known.contains(name)) throw UserError(where + " does not fit the model, which has no " + name);
  }
}

}  // namespace ddprun
