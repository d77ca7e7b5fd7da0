// SPDX-License-Identifier: MIT
#pragma once

#include "pixels.h"

#include <cstdio>
#include <memory>

namespace ddprun::images {

// Reads a JPEG; the file must outlive it. CMYK becomes colours as Pillow makes them. Of the rows it decodes no more
// than the cut needs, so damage below goes unnoticed.
std::unique_ptr<Decoder> open_jpeg(std::FILE* file);

}  // namespace ddprun::images
