// SPDX-License-Identifier: MIT
// Finds all that is wrong with one plugin file, whatever it does to the process that loads it.
#pragma once

#include "plugin_host/plugin_file.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

struct PluginCheck {
  PluginInfo info;
  std::vector<std::string> facts;     // what was found to be in order, one sentence each
  std::vector<std::string> problems;  // none where it can be used
};

// Reads the file's descriptor, then loads it, constructs one object with no options and ends, in a child process that
// may crash, or hang for so long. `others` are the plugins on the search path, of which none may have its kind and
// name. Forks: call it from the only thread.
PluginCheck check_plugin(const std::filesystem::path& file, const std::vector<PluginInfo>& others,
                         std::chrono::milliseconds patience = std::chrono::minutes(1));

}  // namespace ddprun
