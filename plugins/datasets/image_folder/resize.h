// SPDX-License-Identifier: MIT
#pragma once

#include "pixels.h"

#include <ATen/core/Tensor.h>

namespace ddprun::images {

// The picture's shorter side brought to `side` pixels (bilinear, antialiased), then the square of `crop` pixels in its
// middle, crop <= side: [channels, crop, crop] uint8. A picture of any shape costs no more than one three times as long
// as wide: what lies further out cannot show.
at::Tensor resized_square(const Pixels& pixels, int64_t side, int64_t crop);

}  // namespace ddprun::images
