// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace ddprun::console {

using Cells = std::vector<std::string>;

// Aligns cells in columns, two spaces apart, each to the left or to the right. `right` has a flag per column.
std::vector<std::string> text_table(const std::vector<Cells>& rows, const std::vector<bool>& right);

// Returns the number of characters that a terminal shows for UTF-8 text.
size_t shown_width(const std::string& text);

}  // namespace ddprun::console
