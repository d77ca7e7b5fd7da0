// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace ddprun {

// Throws UserError where a model's metric has a name that rows have for something else, or that no logger could write:
// an empty or very long one, one with control characters, one that is not UTF-8. Slashes, quotes, commas and every
// alphabet are fine.
void require_metric_name(const std::string& name);

}  // namespace ddprun
