// SPDX-License-Identifier: MIT
// Pictures named by a table.
#pragma once

#include "sample_list.h"

#include <filesystem>

namespace ddprun::images {

// A CSV with the header file,label or file,label,split; files are relative to `root`, a label is the class's name, a
// split is train, val or test. Fields may be quoted. Classes are sorted: by value where all are numbers, else by name.
// Throws UserError with the line for what is no such table, and where train lacks a class.
SampleList list_csv(const std::filesystem::path& csv, const std::filesystem::path& root);

}  // namespace ddprun::images
