// SPDX-License-Identifier: MIT
// What an objective promises.
#pragma once

#include <ddprun/objective.h>
#include <ddprun/testing/plugin.h>

#include <string>
#include <vector>

namespace ddprun::check {

// An objective with a batch of at least four samples: what a model predicts for them, and their targets.
struct ObjectiveTest {
  Maker<Objective> make;
  at::Tensor prediction;  // [B, ...] floats: [B, C] logits for a classifier
  at::Tensor target;      // [B, ...]
};

// Returns an objective's test with 8 samples of normally distributed logits and random classes.
ObjectiveTest class_test(Maker<Objective> make, int64_t classes);

// The loss is the mean over the samples or over those that counted() says: that of two parts, weighted so, is the same,
// and does not depend on how a batch is split over workers.
std::string mean_over_samples(const ObjectiveTest& test);

// Targets of kIgnoredClass add nothing to loss and gradient, and counted() leaves them out: what an objective of
// classes needs for symbols and pixels. Not among all().
std::string ignores_classes(const ObjectiveTest& test);

// Backward agrees with finite differences, in float64.
std::string gradients(const ObjectiveTest& test);

// Metrics and counts of two parts add up to those of the whole.
std::string metrics_add_up(const ObjectiveTest& test);

// Runs the others above; each problem carries the name of the function that found it.
std::vector<std::string> all(const ObjectiveTest& test);

}  // namespace ddprun::check
