// SPDX-License-Identifier: MIT
#include "weights/model_weights.h"

#include "base/log.h"
#include "comm/replicate.h"

#include <ddprun/error.h>
#include <ddprun/parameters.h>

#include <torch/types.h>

#include <cstring>
#include <set>
#include <stdexcept>

namespace ddprun {

void require_trainable(const Model& model) {
  if (trainable_parameters(model).empty()) throw UserError("it registers no trainable parameters");
  for (const auto& tensor : state_tensors(model)) {
    try {
      require_storable(tensor.name, tensor.value);
    } catch (const std::invalid_argument& error) {
      throw UserError(std::string(error.what()) + ", which no checkpoint holds: a training could not be resumed");
    }
  }
}

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
    const bool is_itself = found->second.is_alias_of(tensor.value) &&
                           found->second.const_data_ptr() == tensor.value.const_data_ptr() &&
                           found->second.strides() == tensor.value.strides();
    if (!is_itself) tensor.value.copy_(found->second);
  }
  for (const auto& [name, value] : saved) {
    if (!known.contains(name)) throw UserError(where + " does not fit the model, which has no " + name);
  }
}

KeptWeights::KeptWeights(const Model& model) {
  for (auto& tensor : state_tensors(model)) {
    kept_.emplace_back(tensor.value.detach(),
                       tensor.value.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  }
}

namespace {

// Returns whether it is in host memory and has these bits: then it need not be written to, and may be shared.
bool has_kept(const at::Tensor& tensor, const at::Tensor& values) {
  return tensor.is_cpu() && tensor.is_non_overlapping_and_dense() && tensor.strides() == values.strides() &&
         std::memcmp(tensor.const_data_ptr(), values.const_data_ptr(), tensor.nbytes()) == 0;
}

}  // namespace

KeptWeights::~KeptWeights() {
  for (auto& [tensor, values] : kept_)
    if (!has_kept(tensor, values)) tensor.copy_(values);
}

}  // namespace ddprun
