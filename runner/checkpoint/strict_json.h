// SPDX-License-Identifier: MIT
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace ddprun {

// JSON in which no object has a key twice: which of the two would count is anybody's guess. Throws std::runtime_error.
nlohmann::json parse_strict_json(std::string_view text);

}  // namespace ddprun
