// SPDX-License-Identifier: MIT
// What image_folder makes of pictures, for dump_files.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ddprun {

std::string to_hex(const uint8_t* bytes, size_t count);

// Readers by name. Each takes its own name, a file and more words:
//
//   rgb, grey                    the pixels
//   part TOP LEFT HEIGHT WIDTH   the pixels of a part
//   resized TOP ... WIDTH SIDE   a part in another size
//   change NAME NUMBER...        the pixels after a change of ddprun/pixel_changes.h
//   boxes COUNT LOW HIGH         random parts of the picture
//   augmented COUNT OPTION...    the mean of each channel after augmentation, for COUNT samples
//   erased COUNT                 how many rows and columns are erased, for COUNT samples
std::map<std::string, std::function<nlohmann::json(const std::vector<std::string>&)>> picture_readers();

}  // namespace ddprun
