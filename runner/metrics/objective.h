// SPDX-License-Identifier: MIT
// The losses that an experiment can name under `objective:`, with their metrics.
#pragma once

#include "config/experiment.h"

#include <ddprun/model.h>
#include <ddprun/objective.h>
#include <ddprun/options.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

// A confusion matrix is counted in evaluation alone: nobody looks at one of the training steps.
enum class Phase { kTraining, kEvaluation };

// The objective of this name:
//   cross_entropy  [B, C] logits, [B] int64 classes; options label_smoothing, class_weights
//   nll            [B, C] log-probabilities, [B] int64 classes; option class_weights
//   bce            logits and 0 or 1 in equal shapes, [B] or [B, labels]
//   mse, l1        values in equal shapes, [B] or [B, values]
// and for all of them the option `metrics`. A prediction of [B, 1] goes with a target of [B]. An unknown name and wrong
// options are noted in `options`; the result is then unusable.
std::unique_ptr<Objective> make_objective(const std::string& name, Options& options, Phase phase);

// The keys of the section `objective`, each with the names that know it.
std::vector<OptionDeclaration> objective_keys();

// What an objective of this name measures: "loss", then the metrics.
std::vector<std::string> metric_names(const std::string& name, const Objective& objective);

// The experiment's objective as models get it: it knows whether a model asks it for a loss, which one with a step() of
// its own need not, and its errors name the objective, or the model where that has not a number for each class.
class WatchedObjective final : public Objective {
 public:
  // `classes`: that many numbers for each sample, or for each of its symbols, are the promise of the model's method
  // `hook`; 0: it promises nothing.
  explicit WatchedObjective(std::unique_ptr<Objective> objective, int64_t classes = 0, const char* hook = "forward")
      : objective_(std::move(objective)), classes_(classes), hook_(hook) {}

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
  const char* hook_;
  mutable std::atomic<bool> was_asked_ = false;
};

// The experiment's objective for this model and these data.
std::unique_ptr<WatchedObjective> watched_objective(const Experiment& experiment, const Model& model,
                                                    const DataSpec& data, Phase phase);

// Call the model's predict() and its step(). Errors, crashes and hangs name the hook that its author wrote: forward()
// where the model has no predict() of its own, and either of them where it has no step() of its own.
at::Tensor call_predict(Model& model, const Batch& batch);
Step call_step(Model& model, const Batch& batch, const Objective& objective);

}  // namespace ddprun
