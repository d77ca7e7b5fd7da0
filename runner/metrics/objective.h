// SPDX-License-Identifier: MIT
// The losses of an experiment's `objective:`, with their metrics.
#pragma once

#include "base/current_op.h"
#include "config/experiment_reader.h"

#include <ddprun/model.h>
#include <ddprun/objective.h>
#include <ddprun/options.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class PluginHost;

// Creates a built-in objective:
//   cross_entropy  [B, C] logits, [B] int64 classes; options label_smoothing, class_weights
//   nll            [B, C] log-probabilities, [B] int64 classes; option class_weights
//   bce            logits and 0 or 1 in equal shapes, [B] or [B, labels]
//   mse, l1        values in equal shapes, [B] or [B, values]
// All of them have the option `metrics`. A prediction of [B, 1] matches a target of [B]. Wrong options are noted in
// `options`; the result is then unusable.
std::unique_ptr<Objective> make_objective(const std::string& name, Options& options);
bool is_built_in_objective(const std::string& name);

// Creates a built-in objective from the options of the section `path`. Throws UserError with all mistakes in them, one
// per line.
std::unique_ptr<Objective> make_built_in_objective(const std::string& name, const Value& options,
                                                   const std::string& path);

// Creates the experiment's objective, a built-in one or a plugin's. Throws UserError with all mistakes in its options,
// one per line, or if neither has this name. `paths`, if given, receives the names of the options that are paths.
std::shared_ptr<Objective> make_objective(const PluginChoice& choice, const PluginHost& plugins,
                                          std::vector<std::string>* paths = nullptr);

// Returns the keys of the section `objective`, each with the names that use it.
std::vector<OptionDeclaration> objective_keys();

// Returns the options of each built-in objective, by its name.
std::vector<SectionHelp> objective_kinds();

// What a built-in objective measures.
struct MetricNames {
  std::vector<std::string> means;           // "loss", then the means over samples, also of training
  std::vector<std::string> of_evaluations;  // "f1", "f1/*" for one of each class, which the data name
};
MetricNames metric_names(const std::string& name, const Objective& objective);

// The experiment's objective as models get it: it knows whether a model asks it for a loss, which a model with its own
// step() need not. Its errors name the objective, or the model if that does not return a number for each class.
class WatchedObjective final : public Objective {
 public:
  // Wraps the objective. The model's method `hook` promises `classes` numbers for each sample, or for each of its
  // symbols; 0: no promise.
  explicit WatchedObjective(std::shared_ptr<Objective> objective, int64_t classes = 0, const char* hook = "forward")
      : objective_(std::move(objective)), classes_(classes), hook_(hook) {}

  bool was_asked() const { return was_asked_.load(std::memory_order_relaxed); }
  bool was_asked_for_counts() const { return was_asked_for_counts_.load(std::memory_order_relaxed); }

  // These throw PluginMistake, of the model or of the section `objective`.
  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override;
  at::Tensor counted(const at::Tensor& target) const override;
  bool takes_parts() const override { return objective_->takes_parts(); }
  std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const override;

  std::vector<MetricCounts> counts(const at::Tensor& prediction, const at::Tensor& target) const override;
  std::vector<std::pair<std::string, double>> summary(const std::vector<MetricCounts>& totals) const override;
  at::Tensor scores(const at::Tensor& prediction) const override;

 private:
  std::shared_ptr<Objective> objective_;
  int64_t classes_;
  const char* hook_;
  mutable std::atomic<bool> was_asked_ = false, was_asked_for_counts_ = false;
};

// Creates the experiment's objective for this model and these data.
std::unique_ptr<WatchedObjective> watched_objective(const PluginChoice& choice, const PluginHost& plugins,
                                                    const Model& model, const DataSpec& data);

// Calls the model's predict(). Errors, crashes and hangs name the hook that its author wrote: forward(), if the model
// does not override predict().
at::Tensor call_predict(Model& model, const Batch& batch);

// Calls the model's step(). The mean over nothing that counts, which may be NaN, becomes 0, and so do sums of it.
Step call_step(Model& model, const Batch& batch, const Objective& objective);

// Returns what errors, crashes and hangs in the model's step() name: the hook that its author wrote, which is forward()
// or predict() if the model does not override step().
CurrentOp step_hook(const Model& model);

}  // namespace ddprun
