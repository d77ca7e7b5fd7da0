// SPDX-License-Identifier: MIT
// Images listed in a table.
#pragma once

#include "sample_list.h"

#include <filesystem>

namespace ddprun::images {

// Reads a CSV with the header file,label or file,label,split. Files are relative to `root`, a label is the class's
// name, a split is train, val or test, or another usual name of these; fields may be quoted, and blanks around labels
// and splits do not count. Classes are sorted: by value if all are numbers, otherwise by name. Throws UserError with
// the line if it is not such a table, if two classes are alike, and if train lacks a class.
SampleList list_csv(const std::filesystem::path& csv, const std::filesystem::path& root);

}  // namespace ddprun::images
