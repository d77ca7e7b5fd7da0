// SPDX-License-Identifier: MIT
// Whether a model's gradients are those of its loss: backward against finite differences, on one batch, in float64.
#pragma once

#include <ddprun/batch.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ddprun {
class Model;
}

namespace ddprun::check {

// What was found for one parameter.
struct GradientFinding {
  std::string parameter;
  int64_t checked = 0;                        // of its numbers
  double largest_error = 0;                   // relative, over these
  double by_backward = 0, by_difference = 0;  // where that is
  bool has_gradient = true;                   // false: the loss does not depend on it

  // Whether the two differ by more than finite differences may.
  bool wrong() const { return has_gradient && !(largest_error <= 1e-4); }
};

// Of a batch, by the model: Model::step().
using LossOfBatch = std::function<at::Tensor(const Batch&)>;

// Changes the model to float64. Dropout and other noise are kept the same in all evaluations by setting the generator
// back. Up to `numbers` of each parameter, chosen by the seed. Central differences; a number at a kink of the loss (a
// ReLU at zero) can look wrong, so the smaller error of two step sizes counts. What `loss_of` throws passes through.
std::vector<GradientFinding> compare_gradients(Model& model, const LossOfBatch& loss_of, Batch batch, int64_t numbers,
                                               uint64_t seed);

}  // namespace ddprun::check
