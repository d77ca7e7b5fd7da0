// SPDX-License-Identifier: MIT
// What the checks of a model share.
#pragma once

#include <ddprun/model.h>
#include <ddprun/parameters.h>
#include <ddprun/testing/model.h>

namespace ddprun::check {

// A model that was made and prepared under this seed, what the test leaves open filled in. All methods throw Problem.
class ModelScene {
 public:
  explicit ModelScene(const ModelTest& test, uint64_t seed = 1);

  Model& model() const { return *model_; }
  const Batch& batch() const { return batch_; }
  const Objective& objective() const { return *objective_; }

  // The loss is a number that training can begin from.
  Step step(const Batch& batch) const;
  Step step() const { return step(batch_); }
  at::Tensor predict(const at::Tensor& input) const;

  // From now on model and batch are float64.
  void widen();

 private:
  void fill_target(const DataSpec& data);

  std::shared_ptr<Model> model_;
  Batch batch_;
  std::shared_ptr<const Objective> objective_;
};

// The samples from, from + 1, ..., from + count - 1.
Batch part(const Batch& batch, int64_t from, int64_t count);

}  // namespace ddprun::check
