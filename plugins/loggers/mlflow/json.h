// SPDX-License-Identifier: MIT
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ddprun::mlflow {

using Json = nlohmann::ordered_json;

// Prints JSON on one line. Bytes that are not UTF-8 are replaced: a strange name is no reason to lose the rest.
inline std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace ddprun::mlflow
