// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/logger.h>

#include <string>
#include <vector>

namespace ddprun::console {

// Lists the model's layers with their output shapes and parameters, for `width` columns. More than `most` layers are
// grouped by the first part of their names.
std::vector<std::string> layer_table(const std::vector<LayerSummary>& layers, size_t most, size_t width);

}  // namespace ddprun::console
