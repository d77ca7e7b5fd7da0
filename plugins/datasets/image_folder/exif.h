// SPDX-License-Identifier: MIT
// How a camera was held.
#pragma once

#include "pixels.h"

#include <string_view>

namespace ddprun::images {

// Returns the orientation that Exif data name, 1 to 8; 1 if they name none, or are damaged. They begin with the byte
// order, or before that with "Exif" and two zeros.
int orientation_of(std::string_view exif);

// Returns the size that a picture has once it is turned.
Size turned(const Size& size, int orientation);

// Returns where a part of the turned picture lies in the stored one, which has this size.
Box stored_box(const Box& box, const Size& stored, int orientation);

// Turns a stored picture, or a part of one.
Pixels turned(Pixels stored, int orientation);

}  // namespace ddprun::images
