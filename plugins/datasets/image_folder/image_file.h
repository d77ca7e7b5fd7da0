// SPDX-License-Identifier: MIT
// PNG and JPEG files. Which one it is the first bytes say, not the name. Threads: any.
#pragma once

#include "pixels.h"

#include <filesystem>

namespace ddprun::images {

// Reads the header alone. Throws UserError, naming the file, for what is no picture, cannot be decoded to grey or
// colours, or claims more than kMostPixels.
Size read_size(const std::filesystem::path& path);

// The whole picture in 1 or 3 channels; transparency is dropped, 16 bits become 8. Throws UserError, naming the file,
// as read_size() does and where the data are damaged or cut off.
Pixels decode(const std::filesystem::path& path, int64_t channels);

}  // namespace ddprun::images
