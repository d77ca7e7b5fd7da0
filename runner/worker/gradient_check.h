// SPDX-License-Identifier: MIT
// `ddprun check --gradients`: a model of an experiment under the SDK's comparison with finite differences.
#pragma once

#include <ddprun/model.h>
#include <ddprun/testing/gradients.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

// check::compare_gradients() of the model's step(); what that throws is told as the plugin's.
std::vector<check::GradientFinding> check_gradients(Model& model, const Objective& objective, Batch batch,
                                                    int64_t numbers, uint64_t seed);

// One line for each parameter, and what it means.
std::string gradient_report(const std::vector<check::GradientFinding>& findings);

}  // namespace ddprun
