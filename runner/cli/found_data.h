// SPDX-License-Identifier: MIT
// Lists the files in a folder, and asks the dataset plugins which of them reads these.
#pragma once

#include <ddprun/found_files.h>

#include <filesystem>
#include <string>

namespace ddprun {

class PluginHost;

struct FoundData {
  std::string plugin;
  Recognized recognized;
};

// Takes a folder, or a single file. Throws UserError if no dataset reads what is there, if the one that knows it cannot
// read it so, and if there are data of two kinds, saying what was found and what was expected.
FoundData find_data(const std::filesystem::path& place, const PluginHost& plugins);

}  // namespace ddprun
