// SPDX-License-Identifier: MIT
#pragma once

#include "exif.h"

#include <cstdio>

namespace ddprun::images {

// Reads Exif and XMP data out of all chunks of a PNG, those after its pixels too: eXIf, and the texts that programs
// keep them in. The file's position stays where it is.
Metadata png_metadata(std::FILE* file);

}  // namespace ddprun::images
