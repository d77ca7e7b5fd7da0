// SPDX-License-Identifier: MIT
// Shared by the checks of an optimizer: given parameters and gradients, without a model or a loss. All functions throw
// Problem.
#pragma once

#include <ddprun/testing/optimizer.h>

#include <memory>
#include <string>
#include <vector>

namespace ddprun::check {

using Parameters = std::vector<NamedParameter>;

// Returns the same numbers on each call, in several shapes and two types; "frozen" never gets a gradient, "late" only
// from step 5 on.
Parameters given_parameters();

Parameters copies(const Parameters& parameters);

// Sets gradients that depend only on the step.
void give_gradients(const Parameters& parameters, int64_t step);

std::shared_ptr<Optimizer> started(const OptimizerTest& test, const Parameters& parameters);

void step(Optimizer& optimizer);

// Does the steps from, ..., to - 1 with their gradients.
void train(Optimizer& optimizer, const Parameters& parameters, int64_t from, int64_t to);

// Returns the name of the first parameter that is not bit for bit equal, or empty if there is none.
std::string first_difference(const Parameters& one, const Parameters& other);

}  // namespace ddprun::check
