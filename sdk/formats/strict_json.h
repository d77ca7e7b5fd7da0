// SPDX-License-Identifier: MIT
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace ddprun {

// What we read in a checkpoint or in a header of data nests 3 levels. Copying, comparing and writing JSON recurse once
// for each level.
inline constexpr size_t kMostJsonDepth = 8;

// JSON as it is defined, nested no deeper than that, in which no object has a key twice: which of the two would count
// is anybody's guess. Takes time that grows with the text alone. Throws std::exception.
nlohmann::json parse_strict_json(std::string_view text, size_t most_depth = kMostJsonDepth);

// The same of MessagePack.
nlohmann::json parse_strict_msgpack(std::string_view bytes, size_t most_depth = kMostJsonDepth);

// "a list", "a text", or a number itself: how error texts name what was found, whatever its size.
std::string describe(const nlohmann::json& value);

}  // namespace ddprun
