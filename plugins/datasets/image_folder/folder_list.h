// SPDX-License-Identifier: MIT
// Pictures sorted into a folder for each class.
#pragma once

#include "sample_list.h"

#include <filesystem>

namespace ddprun::images {

// <root>/train/<class>/<picture>, with val and test likewise where they are; or <root>/<class>/<picture>, all of it
// train. A picture is what ends with .png, .jpg or .jpeg in any case. Classes and pictures are sorted by name. Throws
// UserError where there are no classes, a class has no picture, or a split has other classes than train.
SampleList list_folders(const std::filesystem::path& root);

}  // namespace ddprun::images
