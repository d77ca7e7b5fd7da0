// SPDX-License-Identifier: MIT
// Checks a model's gradients: backward against finite differences of its loss, on one batch, in float64.
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

// The result for one parameter.
struct GradientFinding {
  std::string parameter;
  int64_t checked = 0;                        // how many of its numbers
  double largest_error = 0;                   // relative, over the checked numbers
  double by_backward = 0, by_difference = 0;  // the two values at the largest error
  bool has_gradient = true;                   // false: the loss does not depend on it

  // Returns true if the two differ by more than finite differences may.
  bool wrong() const { return has_gradient && !(largest_error <= 1e-4); }
};

// Computes the loss of a batch by the model: Model::step().
using LossOfBatch = std::function<at::Tensor(const Batch&)>;

// Compares up to `numbers` of each parameter, chosen by the seed, by central differences. Changes the model to float64.
// Dropout and other noise are the same in all evaluations, because the generator is set back. A number at a kink of the
// loss (a ReLU at zero) can look wrong, so the smaller error of two step sizes counts. What `loss_of` throws passes
// through.
std::vector<GradientFinding> compare_gradients(Model& model, const LossOfBatch& loss_of, Batch batch, int64_t numbers,
                                               uint64_t seed);

}  // namespace ddprun::check
