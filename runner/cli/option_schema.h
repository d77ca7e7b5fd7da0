// SPDX-License-Identifier: MIT
// Describes one declared option as JSON Schema, for editors: its type, range, choices, default and help.
#pragma once

#include <ddprun/options.h>

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace ddprun {

// Matches a text with a reference in it, ${optimizer.lr}, which may stand for a value of any type.
inline constexpr const char* kReferencePattern = R"(\$\{)";

// Returns the schema of an option's value. A type of words that nobody reads here, as Options::subtree() may have it,
// allows everything.
nlohmann::ordered_json option_schema(const OptionDeclaration& option);

// Returns the same without the default and the help; `type` and `range` are those of an OptionDeclaration.
nlohmann::ordered_json type_schema(std::string_view type, const std::string& range);

}  // namespace ddprun
