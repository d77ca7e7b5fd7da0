// SPDX-License-Identifier: MIT
// What the checks of an optimizer share: parameters and gradients that are given, no model and no loss. All throw
// Problem.
#pragma once

#include <ddprun/testing/optimizer.h>

#include <memory>
#include <string>
#include <vector>

namespace ddprun::check {

using Parameters = std::vector<NamedParameter>;

// The same numbers on each call. Several shapes and two types; "frozen" never gets a gradient, "late" only from step 5
// on.
Parameters given_parameters();

Parameters copies(const Parameters& parameters);

// Gradients that depend on the step alone.
void give_gradients(const Parameters& parameters, int64_t step);

std::shared_ptr<Optimizer> started(const OptimizerTest& test, const Parameters& parameters);

void step(Optimizer& optimizer);

// Steps from, ..., to - 1 with their gradients.
void train(Optimizer& optimizer, const Parameters& parameters, int64_t from, int64_t to);

// The name of the first parameter in which they are not equal bit for bit; empty where there is none.
std::string first_difference(const Parameters& one, const Parameters& other);

}  // namespace ddprun::check
