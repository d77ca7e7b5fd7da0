// SPDX-License-Identifier: MIT
#pragma once

#include "pixels.h"

#include <cstdio>
#include <memory>

namespace ddprun::images {

// Reads a Windows or OS/2 bitmap of 1 to 32 bits, RLE too, as Pillow does; the file must outlive it.
std::unique_ptr<Decoder> open_bmp(std::FILE* file);

}  // namespace ddprun::images
