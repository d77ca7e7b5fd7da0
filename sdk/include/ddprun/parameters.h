// SPDX-License-Identifier: MIT
// Helpers for a network's parameters.
#pragma once

#include <ddprun/api.h>
#include <ddprun/optimizer.h>

#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace ddprun {

// Returns the trainable parameters, each tensor once: C++'s named_parameters() lists tied weights twice.
DDPRUN_API std::vector<NamedParameter> trainable_parameters(const torch::nn::Module& model);

// Casts the floating-point parameters and buffers to another type. Unlike torch::nn::Module::to(), leaves integers
// alone, such as a batch count or a table of positions.
DDPRUN_API void cast_floating_point(torch::nn::Module& model, c10::ScalarType type);

// Returns whether the name matches a pattern as a shell has for file names, in which * goes over dots too: "*.bias",
// "layer[12].*".
DDPRUN_API bool name_matches(const std::string& pattern, const std::string& name);

// Returns "; did you mean layer1.*?", or an empty text if nothing is near: for the error of a pattern that matches none
// of the names.
DDPRUN_API std::string nearest_pattern(const std::string& pattern, const std::vector<std::string>& names);

// Returns "conv1.weight, conv1.bias, ... (62 in all)", or "none".
DDPRUN_API std::string first_names(const std::vector<std::string>& names);

}  // namespace ddprun
