// SPDX-License-Identifier: MIT
// How a camera was held.
#pragma once

#include "pixels.h"

#include <cstdint>
#include <span>

namespace ddprun::images {

// Returns the orientation that Exif data name, 1 to 8; 1 if they name none or are damaged. They begin with the byte
// order, "II" or "MM".
int orientation_of(std::span<const uint8_t> exif);

// Returns the size that a picture has once it is turned.
Size turned(const Size& size, int orientation);

// Returns where a part of the turned picture lies in the stored one, which has this size.
Box stored_box(const Box& box, const Size& stored, int orientation);

// Turns a stored picture, or a part of one.
Pixels turned(Pixels stored, int orientation);

}  // namespace ddprun::images
