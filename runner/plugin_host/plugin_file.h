// SPDX-License-Identifier: MIT
// One plugin file: what its descriptor says, read without loading it, and the loading of one that fits.
#pragma once

#include <ddprun/descriptor.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace ddprun {

// A plugin file as its descriptor tells, without having run a line of it.
struct PluginInfo {
  std::filesystem::path file;
  std::string kind, name, help;
  std::string sdk_version, torch_version,
      compiler;         // what it was built with; empty where the descriptor cannot be read
  std::string problem;  // why it cannot be loaded, without the file's name; empty where it can
};

// Whether what was made with that version of LibTorch fits the program's: a minor version has one C++ ABI, and one set
// of kernels.
bool is_this_torch(std::string_view version);

// Never throws for a flaw of the file: that is `problem`.
PluginInfo read_plugin_file(const std::filesystem::path& file);

// Why a program built with these same headers cannot use a plugin of this descriptor; empty where it can.
std::string plugin_mismatch(const PluginDescriptor& descriptor);

// Loads a file that read_plugin_file found without a problem. It stays loaded until the process ends. Throws UserError
// with the dynamic linker's own words where it cannot be loaded. Threads: any.
const PluginDescriptor& load_plugin_file(const std::filesystem::path& file);

}  // namespace ddprun
