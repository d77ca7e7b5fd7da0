// SPDX-License-Identifier: MIT
// Images sorted into one folder per class.
#pragma once

#include "sample_list.h"

#include <filesystem>

namespace ddprun::images {

// Lists <root>/train/<class>/.../<picture>, and val and test likewise if they exist, under any of their usual names; or
// <root>/<class>/.../<picture>, all of it train. Classes and pictures are sorted by name. A picture is a file that is
// called one, whatever it is, or that has another name and is one by its first bytes. All else is counted as left
// alone, by reason.
//
// Throws UserError if there are no classes, a class has no picture, a split has other classes than train, two names are
// alike or unfit, a split has two folders, or a folder beside train seems to be a split that nobody would read.
SampleList list_folders(const std::filesystem::path& root);

// Counts the files below a folder that are not in the list.
void count_unlisted(const std::filesystem::path& root, const SampleList& list, DataAccount& account);

}  // namespace ddprun::images
