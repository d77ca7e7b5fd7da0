// SPDX-License-Identifier: MIT
#pragma once

#include "pixels.h"

#include <cstdio>
#include <memory>

namespace ddprun::images {

// Reads a netpbm picture, P1 to P6: .pbm, .pgm, .ppm; the file must outlive it. Numbers of another greatest value than
// 255 become bytes.
std::unique_ptr<Decoder> open_pnm(std::FILE* file);

}  // namespace ddprun::images
