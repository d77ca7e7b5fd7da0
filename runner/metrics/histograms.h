// SPDX-License-Identifier: MIT
// Histograms of weights and gradients for the loggers.
#pragma once

#include <ddprun/logger.h>
#include <ddprun/optimizer.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

// Returns `bins` bins of equal width from the smallest to the largest of the tensor's finite numbers; a single bin if
// all are equal.
Histogram histogram_of(const std::string& name, const at::Tensor& values, int64_t bins);

std::vector<Histogram> histograms_of_weights(const std::vector<NamedParameter>& parameters, int64_t bins);
std::vector<Histogram> histograms_of_gradients(const std::vector<NamedParameter>& parameters, int64_t bins);

}  // namespace ddprun
