// SPDX-License-Identifier: MIT
// PNG, JPEG and WebP pictures, known by their first bytes, not by their name. Safe to call from any thread. All
// throw UserError that names the picture and says what is wrong: it is no picture or no file, is damaged, or is larger
// than allowed.
#pragma once

#include "encoded_picture.h"
#include "pixels.h"

#include <functional>

namespace ddprun::images {

// How pictures are read.
struct Reading {
  bool turn = true;                   // as Exif data say
  int64_t most_pixels = kMostPixels;  // that are held in memory for one picture
  int64_t least_side = 0;             // a larger JPEG is halved while both its sides keep this; 0: it is refused
};

// Reads only the header. Returns the size of the picture as it is shown: turned, if `turn` is true.
Size read_size(const Picture& picture, bool turn = true);

// Reads the header and the end of the file; the whole of it, if it does not end as such a file should, or if
// `decode_all` asks for that.
void check_file(const Picture& picture, const Reading& how = {}, bool decode_all = false);

// Chooses the part of a picture, given the size that read_size() returns.
using Choose = std::function<Cut(const Size&)>;

// Decodes the chosen part to 1 or 3 channels, by default all of it, and turns it. Transparency is dropped, 16 bits
// become 8.
Pixels decode(const Picture& picture, int64_t channels, const Reading& how = {}, const Choose& choose = nullptr);

}  // namespace ddprun::images
