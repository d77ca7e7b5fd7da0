// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace ddprun::console {

using Cells = std::vector<std::string>;

// Lines of equal columns, two spaces apart, each cell at the left or at the right of its column. `right` has a flag for
// each column.
std::vector<std::string> text_table(const std::vector<Cells>& rows, const std::vector<bool>& right);

// How many characters a terminal shows of UTF-8 text.
size_t shown_width(const std::string& text);

}  // namespace ddprun::console
