// SPDX-License-Identifier: MIT
// What an experiment asks for and only its data show to be impossible or without effect. `ddprun check` and the start
// of a run ask alike.
#pragma once

#include "config/experiment.h"

#include <ddprun/dataset.h>
#include <ddprun/model.h>

#include <string>
#include <vector>

namespace ddprun {

// Throws PluginMistake if the loss of the started dataset's samples is 0 whatever the model predicts: they have one
// class, or objective.class_weights are 0 for all classes that they have. So it does if two classes have one name, or
// if the samples need a mask that the model does not take.
void require_something_to_learn(const Experiment& experiment, const Dataset& dataset, const Model& model);

// Returns a line for each setting that has no effect with these data, or another one than it seems to have, and for
// what makes the data hard to learn from. The dataset has been started.
std::vector<std::string> doubts_with_data(const Experiment& experiment, const Dataset& dataset);

// Returns what to say of an objective that the model did not ask for a loss.
std::string unused_objective(const Experiment& experiment);

}  // namespace ddprun
