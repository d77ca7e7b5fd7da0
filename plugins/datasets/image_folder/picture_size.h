// SPDX-License-Identifier: MIT
// The size of pictures as they are stored, of which a dataset shows only the squares that it makes of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace ddprun::images {

// Returns the shorter side of a PNG or JPEG picture, from its header; nothing for another file.
std::optional<int64_t> shorter_side(const std::filesystem::path& picture);

// Returns the one in the middle, if any can be read.
std::optional<int64_t> median_shorter_side(const std::vector<std::filesystem::path>& pictures);

}  // namespace ddprun::images
