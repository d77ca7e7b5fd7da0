// SPDX-License-Identifier: MIT
// Whether a model's gradients are those of its loss: backward against finite differences, on one batch, in float64.
#pragma once

#include <ddprun/batch.h>
#include <ddprun/model.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

struct GradientFinding {
  std::string parameter;
  int64_t checked = 0;       // of its numbers
  double largest_error = 0;  // relative, over these
  bool has_gradient = true;  // false: the loss does not depend on it

  bool wrong() const { return has_gradient && largest_error > 1e-4; }
};

// Changes the model to float64. Dropout and other noise are kept the same in all evaluations by setting the generator back. Up to
// `numbers` of each parameter, chosen by the seed. Central differences; a number at a kink of the loss (a ReLU at zero) can look
// wrong, so the smaller error of two step sizes counts.
std::vector<GradientFinding> check_gradients(Model& model, const Objective& objective, Batch batch, int64_t numbers,
                                             uint64_t seed);

// One line for each parameter, and what it means.
std::string gradient_report(const std::vector<GradientFinding>& findings);

}  // namespace ddprun
