// SPDX-License-Identifier: MIT
// What `ddprun plugins` and `ddprun plugins show NAME` print, at most 80 columns wide where no single word is wider.
#pragma once

#include "plugin_host/plugin_check.h"
#include "plugin_host/plugin_host.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

// One line for each plugin, with the file where it lies outside `own_folder`; then the flawed files, each with its
// reason.
std::string plugin_list_text(const std::vector<PluginInfo>& plugins, const std::filesystem::path& own_folder);

// What `ddprun plugins check` found.
std::string plugin_check_text(const PluginCheck& check);

// The plugin, what it was built with, and its options.
std::string plugin_page_text(const PluginDescription& description);

}  // namespace ddprun
