// SPDX-License-Identifier: MIT
// The layers of a model, for people.
#pragma once

#include <ddprun/logger.h>
#include <ddprun/model.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddprun {

// The modules with parameters of their own, each parameter counted once. Where `output` is what the model made of `batch` samples with
// gradients enabled, with the shapes of the layers' outputs but for the samples: autograd's graph tells which operation took a
// layer's parameters, for C++ modules have no hooks. A layer whose operation is not found there has none.
std::vector<LayerSummary> layers_of(const Model& model, const at::Tensor& output = {}, int64_t batch = 0);

}  // namespace ddprun
