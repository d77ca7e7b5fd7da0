// SPDX-License-Identifier: MIT
// A model as TorchScript, for those who run it without its plugin: what its forward() does in evaluation, operation by
// operation, over its weights.
#pragma once

#include "data/data_form.h"

#include <ddprun/model.h>

#include <torch/csrc/jit/api/module.h>

namespace ddprun {

// What the file takes and gives.
struct TraceForm {
  DataForm data;     // one sample is of spec.sample_shape
  bool raw = false;  // bytes in, [B, C, H, W] uint8, and probabilities of the classes out. `data` must have bytes
};

// Returns a module with the model's tensors, not copies, under the same names. Its batch may be of any size: it is
// compared with the model on another batch than it was recorded with. The model is in evaluation afterwards. Throws
// UserError, one line, where forward() cannot be recorded, keeps the size of a batch, draws random numbers in
// evaluation, or gives no scores of classes with `raw`.
torch::jit::Module traced(Model& model, const TraceForm& form);

}  // namespace ddprun
