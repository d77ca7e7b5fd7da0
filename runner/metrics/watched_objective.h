// SPDX-License-Identifier: MIT
// The experiment's objective as models get it: it knows whether a model asks it for a loss, which one with a step() of
// its own need not, and its errors name the objective, or the model where that has not a number for each class.
#pragma once

#include "config/experiment.h"
#include "metrics/objective.h"

#include <ddprun/model.h>

#include <atomic>
#include <memory>

namespace ddprun {

class WatchedObjective final : public Objective {
 public:
  // `classes`: that many numbers for each sample are the model's promise; 0: it promises nothing.
  explicit WatchedObjective(std::unique_ptr<Objective> objective, int64_t classes = 0)
      : objective_(std::move(objective)), classes_(classes) {}

  bool was_asked() const { return was_asked_.load(std::memory_order_relaxed); }

  // Both throw PluginMistake: of the model, or of the section `objective`.
  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override;
  std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const override;

  at::Tensor confusion(const at::Tensor& prediction, const at::Tensor& target) const override {
    return objective_->confusion(prediction, target);
  }

  at::Tensor scores(const at::Tensor& prediction) const override { return objective_->scores(prediction); }

 private:
  std::unique_ptr<Objective> objective_;
  int64_t classes_;
  mutable std::atomic<bool> was_asked_ = false;
};

// The experiment's objective for this model and these data.
std::unique_ptr<WatchedObjective> watched_objective(const Experiment& experiment, const Model& model,
                                                    const DataSpec& data, Phase phase);

}  // namespace ddprun
