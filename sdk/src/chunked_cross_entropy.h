// SPDX-License-Identifier: MIT
// The cross-entropy of large vocabularies.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun {

// Returns whether [N, C] logits are so many that chunked_cross_entropy() pays.
bool are_many(const at::Tensor& logits);

// Returns what cross_entropy() does, in every bit, as its gradient is. Log-probabilities are made of some rows at a
// time, and again in backward, in place of being kept: a step holds the logits and their gradient, where LibTorch's
// operations hold two copies more in float32, and one of the logits if those have 16 bits.
at::Tensor chunked_cross_entropy(const at::Tensor& logits, const at::Tensor& target, double label_smoothing);

}  // namespace ddprun
