// SPDX-License-Identifier: MIT
// What a network is made of.
#pragma once

#include <ddprun/api.h>
#include <ddprun/optimizer.h>

#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <vector>

namespace ddprun {

// What training changes, each tensor once: C++'s named_parameters() lists tied weights twice.
DDPRUN_API std::vector<NamedParameter> trainable_parameters(const torch::nn::Module& model);

// Gives parameters and buffers of a floating-point type another one. Integers, such as a count of batches or the places
// of positions in a table, stay what they are; torch::nn::Module::to() changes them too.
DDPRUN_API void cast_floating_point(torch::nn::Module& model, c10::ScalarType type);

}  // namespace ddprun
