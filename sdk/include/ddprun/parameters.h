// SPDX-License-Identifier: MIT
// Helpers for a network's parameters.
#pragma once

#include <ddprun/api.h>
#include <ddprun/optimizer.h>

#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <vector>

namespace ddprun {

// Returns the trainable parameters, each tensor once: C++'s named_parameters() lists tied weights twice.
DDPRUN_API std::vector<NamedParameter> trainable_parameters(const torch::nn::Module& model);

// Casts the floating-point parameters and buffers to another type. Unlike torch::nn::Module::to(), leaves integers
// alone, such as a batch count or a table of positions.
DDPRUN_API void cast_floating_point(torch::nn::Module& model, c10::ScalarType type);

}  // namespace ddprun
