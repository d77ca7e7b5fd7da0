// SPDX-License-Identifier: MIT
// How a camera was held.
#pragma once

#include "pixels.h"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::images {

// What a picture's file says of it, as Pillow gathers it.
struct Metadata {
  std::optional<std::string> exif = {};  // from the byte order on, or after "Exif" and two zeros, once or twice
  std::string xmp = {};                  // a text in XML
};

// Returns the orientation that the data name, 1 to 8: Exif's, or where that names none XMP's. 1 if none does, or they
// are damaged.
int orientation_of(const Metadata& data);

// Returns the size that a picture has once it is turned.
Size turned(const Size& size, int orientation);

// Returns where a part of the turned picture lies in the stored one, which has this size.
Box stored_box(const Box& box, const Size& stored, int orientation);

// Turns a stored picture, or a part of one.
Pixels turned(Pixels stored, int orientation);

}  // namespace ddprun::images
