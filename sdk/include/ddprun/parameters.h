// SPDX-License-Identifier: MIT
// What of a network is trained.
#pragma once

#include <ddprun/api.h>
#include <ddprun/optimizer.h>

#include <torch/nn/module.h>

#include <vector>

namespace ddprun {

// What training changes, each tensor once: C++'s named_parameters() lists tied weights twice.
DDPRUN_API std::vector<NamedParameter> trainable_parameters(const torch::nn::Module& model);

}  // namespace ddprun
