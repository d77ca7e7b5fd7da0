// SPDX-License-Identifier: MIT
#pragma once

#include "pixels.h"

#include <ATen/core/Tensor.h>

namespace ddprun::images {

// Scales the picture's shorter side to `side` pixels (bilinear, antialiased), then cuts out the square of `crop` pixels
// in its middle, crop <= side: [channels, crop, crop] uint8, with strides of any order. A picture of any shape costs at
// most as much as one three times as long as wide: what lies further out cannot show.
at::Tensor resized_square(const Pixels& pixels, int64_t side, int64_t crop);

// Scales the whole picture, whatever its shape, to a square (bilinear, antialiased): [channels, side, side] uint8,
// likewise.
at::Tensor resized(const Pixels& pixels, int64_t side);

}  // namespace ddprun::images
