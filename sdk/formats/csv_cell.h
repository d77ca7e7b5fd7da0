// SPDX-License-Identifier: MIT
// Cells of a CSV file, for whoever writes one and reads it back.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

// A cell of a line: in quotes where it has to be, for a name may be "cup, mug"; and with a ' first where a spreadsheet
// would take it for a formula and compute it. A number stays as it is.
std::string csv_cell(const std::string& text);

// The texts of a line without its end, as csv_cell() was given them.
std::vector<std::string> csv_cells(const std::string& line);

}  // namespace ddprun
