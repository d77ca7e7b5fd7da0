// SPDX-License-Identifier: MIT
#pragma once

#include "pixels.h"

#include <cstdio>

namespace ddprun::images {

// These read a JPEG from its beginning. They throw std::runtime_error with what is wrong.
Size read_jpeg_size(std::FILE* file);
Pixels read_jpeg(std::FILE* file, int64_t channels);

}  // namespace ddprun::images
