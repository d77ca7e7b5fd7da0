// SPDX-License-Identifier: MIT
// New picture files for datasets whose pictures are in memory: `ddprun predict --input`.
#pragma once

#include <ddprun/image_store.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::images {

struct NewPictures {
  std::shared_ptr<const uint8_t> pixels;  // of all, one after the other, each [channels, side, side]
  std::vector<std::string> names;         // as given
};

// Decodes the files to 1 or 3 channels; the shorter side becomes `shape`'s, and the square in the middle is taken.
// Throws UserError with all files that cannot be read, and if the shape, {channels, height, width}, is no such square.
NewPictures read_new_pictures(const std::vector<std::filesystem::path>& files, const std::vector<int64_t>& shape);

// Returns them as a split of class 0.
ImageStore new_store(const ImageFormat& format, const NewPictures& pictures);

}  // namespace ddprun::images
