// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/model.h>

namespace ddprun {

// Puts a model into evaluation mode for a scope, and back into its former mode.
class EvalMode {
 public:
  explicit EvalMode(Model& model) : model_(model), was_training_(model.is_training()) { model_.eval(); }
  ~EvalMode() { model_.train(was_training_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  Model& model_;
  bool was_training_;
};

}  // namespace ddprun
