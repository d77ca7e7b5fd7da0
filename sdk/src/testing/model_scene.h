// SPDX-License-Identifier: MIT
// Shared by the checks of a model, and by those of an objective's gradients.
#pragma once

#include <ddprun/model.h>
#include <ddprun/parameters.h>
#include <ddprun/testing/gradients.h>
#include <ddprun/testing/model.h>

namespace ddprun::check {

// A model made and prepared under this seed, with the test's gaps filled in. All methods throw Problem.
class ModelScene {
 public:
  explicit ModelScene(const ModelTest& test, uint64_t seed = 1);

  Model& model() const { return *model_; }
  const Batch& batch() const { return batch_; }
  const Objective& objective() const { return *objective_; }

  // Throws if the loss cannot be trained.
  Step step(const Batch& batch) const;
  Step step() const { return step(batch_); }
  at::Tensor predict(const Batch& batch) const;
  at::Tensor predict() const { return predict(batch_); }

  // Converts model and batch to float64.
  void widen();

 private:
  void fill_target(const DataSpec& data);

  std::shared_ptr<Model> model_;
  Batch batch_;
  std::shared_ptr<const Objective> objective_;
};

// Returns the samples from, from + 1, ..., from + count - 1.
Batch part(const Batch& batch, int64_t from, int64_t count);

// Throws what is wrong with the first wrong gradient.
void require_right(const std::vector<GradientFinding>& findings);

}  // namespace ddprun::check
