// SPDX-License-Identifier: MIT
// Looks at the names of the files in a folder, and says which dataset plugin reads them, with which options. What is in
// the files is the plugin's to read.
#pragma once

#include <ddprun/value.h>

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

struct FoundData {
  std::string plugin;                           // "image_folder"
  Value options;                                // a map; paths in it are absolute
  std::vector<std::filesystem::path> pictures;  // image_folder: some of them, spread evenly
};

// Takes a folder, or a single file of text or arrays. Throws UserError if there is nothing that a dataset reads, or a
// mixture, saying what was found and what was expected.
FoundData find_data(const std::filesystem::path& place);

}  // namespace ddprun
