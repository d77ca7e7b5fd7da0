// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/logger.h>

#include <string>
#include <vector>

namespace ddprun::console {

// The model's layers with the shapes of their outputs and their parameters, for `width` columns. More than `most` are
// put together by the first part of their names.
std::vector<std::string> layer_table(const std::vector<LayerSummary>& layers, size_t most, size_t width);

}  // namespace ddprun::console
