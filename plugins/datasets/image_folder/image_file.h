// SPDX-License-Identifier: MIT
// PNG, JPEG and WebP pictures, told apart by their first bytes, not by their name. Safe to call from any thread. All
// throw UserError that names the picture and says what is wrong: it is no picture, is damaged, or claims more than
// kMostPixels.
#pragma once

#include "encoded_picture.h"
#include "pixels.h"

#include <functional>

namespace ddprun::images {

// Reads only the header. Returns the size of the picture as it is shown: turned as Exif says, if `turn` is true.
Size read_size(const Picture& picture, bool turn = true);

// Reads the header and the end of the file; the whole of it, if it does not end as such a file should.
void check_file(const Picture& picture);

// Chooses the part of a picture, given the size that read_size() returns.
using Choose = std::function<Cut(const Size&)>;

// Decodes the chosen part to 1 or 3 channels, by default all of it, and turns it. Transparency is dropped, 16 bits
// become 8.
Pixels decode(const Picture& picture, int64_t channels, bool turn = true, const Choose& choose = nullptr);

}  // namespace ddprun::images
