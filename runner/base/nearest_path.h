// SPDX-License-Identifier: MIT
// Corrects a mistyped path.
#pragma once

#include <filesystem>
#include <string>

namespace ddprun {

// Returns the path with each part that does not exist replaced by the nearest name beside it: outputs/ft/latest for
// outputs/ft/lates. Empty if the path exists, or if nothing is near to a part.
std::filesystem::path nearest_path(const std::filesystem::path& path);

// Returns "; did you mean outputs/ft/latest?", or an empty text.
std::string did_you_mean(const std::filesystem::path& path);

}  // namespace ddprun
