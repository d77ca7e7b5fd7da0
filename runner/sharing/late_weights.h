// SPDX-License-Identifier: MIT
// Checks that a model waits for its weights (<ddprun/arriving_weights.h>) before it reads them: one that forgot it
// would train on old ones, and nobody would see it.
#pragma once

#include <ddprun/model.h>

#include <ATen/core/Tensor.h>

#include <functional>

namespace ddprun {

// Computes a loss twice if the model says that it waits for weights: as they are, and with all of them unknown (NaN)
// until they are waited for. Throws PluginMistake that names a weight which is read before. `loss` calls step() on some
// samples; it may change buffers and random generators. Weights are as before; the largest takes memory twice.
void require_waits(Model& model, const std::function<at::Tensor()>& loss);

}  // namespace ddprun
