// SPDX-License-Identifier: MIT
// Reads the headers of a shard's members.
#pragma once

#include "shard_index.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::images {

inline constexpr int64_t kMostClasses = 1'000'000;  // a larger number is a mistake

// Makes the index of a shard. A key ends at the first dot after the last slash, and an ending counts in any case, as
// webdataset reads both; tars that were joined into one are read to the last, and a hard link is what it points to.
// Throws UserError as index_for() does.
ShardIndex read_members(const MappedFile& shard);

// Returns the class that a member holds. Throws UserError with its name.
int64_t class_number(const MappedFile& shard, const std::string& member, std::string_view text);

}  // namespace ddprun::images
