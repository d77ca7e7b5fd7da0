// SPDX-License-Identifier: MIT
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Our checkpoints and data headers nest 3 levels deep. Copying, comparing and writing JSON recurse once per level.
inline constexpr size_t kMostJsonDepth = 8;

// Parses standard JSON nested no deeper than `most_depth`. Refuses an object that has a key twice, since nobody can
// say which one counts. Takes linear time. Throws std::exception.
nlohmann::json parse_strict_json(std::string_view text, size_t most_depth = kMostJsonDepth);

// Does the same for MessagePack.
nlohmann::json parse_strict_msgpack(std::string_view bytes, size_t most_depth = kMostJsonDepth);

// Returns a whole number of at most 2^63 - 1. Throws std::runtime_error for anything else: a whole number that needs
// more than 64 bits is parsed as a float, which the library's own conversion does not check.
uint64_t to_count(const nlohmann::json& value);

// Describes a value of any size for an error message: "a list", "a text", or a number itself.
std::string describe(const nlohmann::json& value);

// Returns the names in a list of class names, each in quotes. Throws std::runtime_error that says what was expected,
// for an error to end with.
std::vector<std::string> class_names_in(std::string_view json);

}  // namespace ddprun
