// SPDX-License-Identifier: MIT
// The output of `ddprun plugins` and `ddprun plugins show NAME`, at most 80 columns wide unless a single word is wider.
#pragma once

#include "plugin_host/plugin_check.h"
#include "plugin_host/plugin_host.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

// Lists one plugin per line, with the file if it is outside `own_folder`; then the flawed files, each with its reason.
std::string plugin_list_text(const std::vector<PluginInfo>& plugins, const std::filesystem::path& own_folder);

// Prints what `ddprun plugins check` found.
std::string plugin_check_text(const PluginCheck& check);

// Prints the plugin, what it was built with, and its options.
std::string plugin_page_text(const PluginDescription& description);

}  // namespace ddprun
