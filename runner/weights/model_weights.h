// SPDX-License-Identifier: MIT
// Looks at a model's weights before a training, and loads those of a checkpoint into the model that saved them.
#pragma once

#include <ddprun/model.h>
#include <ddprun/safetensors.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// Throws UserError if the model has nothing to train, or a tensor of a type that no checkpoint holds, such as complex
// numbers.
void require_trainable(const Model& model);

// Copies parameters and buffers into the model by name. Throws UserError, beginning with `where`, for a missing or
// unknown name and for another shape.
void load_weights(const Model& model, const TensorDict& saved, const std::string& where);

// Keeps a model's weights and buffers in the host's memory, and gives them back at the end of a scope.
class KeptWeights {
 public:
  explicit KeptWeights(const Model& model);
  ~KeptWeights();
  KeptWeights(const KeptWeights&) = delete;
  KeptWeights& operator=(const KeptWeights&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;  // all before anything changes: tied weights are there twice
};

}  // namespace ddprun
