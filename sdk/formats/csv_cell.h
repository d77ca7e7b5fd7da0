// SPDX-License-Identifier: MIT
// Writing and reading the cells of a CSV file.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

// Returns the text as one cell: quoted if it must be (a name may be "cup, mug"), and prefixed with ' if a spreadsheet
// would compute it as a formula. A number stays as it is, and what is not UTF-8 becomes the replacement character.
std::string csv_cell(const std::string& text);

// Returns the texts that csv_cell() was given for a line, which comes without its line end.
std::vector<std::string> csv_cells(const std::string& line);

}  // namespace ddprun
