// SPDX-License-Identifier: MIT
// Images sorted into one folder per class.
#pragma once

#include "sample_list.h"

#include <filesystem>

namespace ddprun::images {

// Lists <root>/train/<class>/<picture>, and val and test likewise if they exist; or <root>/<class>/<picture>, all of it
// train. A picture is a file that ends with .png, .jpg, .jpeg or .webp in any case. Classes and pictures are sorted by
// name. Throws UserError if there are no classes, a class has no picture, or a split has other classes than train.
SampleList list_folders(const std::filesystem::path& root);

}  // namespace ddprun::images
