// SPDX-License-Identifier: MIT
// Starts a model from weights that others have trained: the section `pretrained` of an experiment.
#pragma once

#include "config/experiment.h"

#include <ddprun/model.h>
#include <ddprun/safetensors.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

// What became of the model's tensors and of the file's.
struct LoadedWeights {
  int64_t loaded = 0;               // tensors of the model
  std::vector<std::string> anew;    // those named by pretrained.skip
  std::vector<std::string> unused;  // those of the file named by it
  std::string converted;            // "float16 to float32", if types differ; empty: none did

  // Returns "60 tensors loaded from resnet.safetensors (bfloat16 to float32), 2 new: fc.weight, fc.bias".
  std::string text(const std::string& file) const;
};

// Copies the tensors that pretrained.file holds into the model by name, after pretrained.rename; those that
// pretrained.skip names stay as they are. Throws UserError with all that do not fit and the line of `skip` that would
// begin them anew, or for a pattern that matches nothing.
LoadedWeights load_pretrained(const Model& model, const PretrainedConfig& config);

// Reads the tensors of pretrained.file. Throws UserError with its place in the experiment.
TensorDict read_pretrained(const PretrainedConfig& config);

// Loads tensors that were read.
LoadedWeights load_pretrained(const Model& model, const PretrainedConfig& config, const TensorDict& saved);

}  // namespace ddprun
