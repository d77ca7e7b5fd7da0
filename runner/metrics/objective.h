// SPDX-License-Identifier: MIT
// The losses that an experiment can name under `objective:`, with their metrics.
#pragma once

#include <ddprun/objective.h>
#include <ddprun/options.h>

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

// What an objective of this name measures: "loss", then the metrics.
std::vector<std::string> metric_names(const std::string& name, const Objective& objective);

}  // namespace ddprun
