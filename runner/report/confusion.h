// SPDX-License-Identifier: MIT
// A confusion matrix for the page: the counts where they can be drawn, and the classes that are most often taken for
// another.
#pragma once

#include <nlohmann/json.hpp>

namespace ddprun {

// Of a table of kind "confusion". More classes than can be told apart in a picture leave the counts out. Throws
// nlohmann::json::exception or std::runtime_error where the table is none.
nlohmann::ordered_json shown_confusion(const nlohmann::json& table);

}  // namespace ddprun
