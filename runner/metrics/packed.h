// SPDX-License-Identifier: MIT
// Brings a step's numbers together, so that a GPU sends them to the host at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace ddprun {

// Returns these scalars of one device as one tensor there, [n] float64: with one kernel on a GPU, whatever their types.
// Does not wait for it.
at::Tensor packed(const std::vector<at::Tensor>& numbers);

}  // namespace ddprun
