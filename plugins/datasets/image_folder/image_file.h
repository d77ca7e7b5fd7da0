// SPDX-License-Identifier: MIT
// PNG and JPEG pictures, told apart by their first bytes, not by their name. Safe to call from any thread.
#pragma once

#include "pixels.h"
#include "sample_list.h"

namespace ddprun::images {

// Reads only the header. Throws UserError, naming the picture, if it is not a picture, cannot be decoded to grey or
// colours, or claims more than kMostPixels.
Size read_size(const Picture& picture);

// Decodes the whole picture to 1 or 3 channels; transparency is dropped, 16 bits become 8. Throws UserError, naming the
// picture, as read_size() does and if the data are damaged or cut off.
Pixels decode(const Picture& picture, int64_t channels);

}  // namespace ddprun::images
