// SPDX-License-Identifier: MIT
// Prepares a confusion matrix for the page: the counts if they can be drawn, and the classes most often taken for
// another.
#pragma once

#include <nlohmann/json.hpp>

namespace ddprun {

// Takes a table of kind "confusion". Omits the counts if there are too many classes to tell apart in a picture. Throws
// nlohmann::json::exception or std::runtime_error if it is not such a table.
nlohmann::ordered_json shown_confusion(const nlohmann::json& table);

}  // namespace ddprun
