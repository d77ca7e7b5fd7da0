// SPDX-License-Identifier: MIT
// Which files are pictures and shards of pictures: `ddprun init`.
#pragma once

#include <ddprun/found_files.h>

#include <optional>

namespace ddprun::images {

std::optional<Recognized> recognize_pictures(const FoundFiles& found);
std::optional<Recognized> recognize_shards(const FoundFiles& found);

}  // namespace ddprun::images
