// SPDX-License-Identifier: MIT
// One plugin file: reads its descriptor without loading it, and loads one that fits.
#pragma once

#include <ddprun/descriptor.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

// What a plugin file's descriptor says, read without running a line of it.
struct PluginInfo {
  std::filesystem::path file;
  std::string kind, name, help;
  std::string sdk_version, torch_version,
      compiler;         // built with it; empty if the descriptor cannot be read
  std::string problem;  // why it cannot be loaded, without the file's name; empty if it can
};

// Returns true if what was made with that version of LibTorch fits the program's: a minor version has one C++ ABI, and
// one set of kernels.
bool is_this_torch(std::string_view version);

// Never throws for a flaw of the file, which becomes `problem`.
PluginInfo read_plugin_file(const std::filesystem::path& file);

// Returns why a program built with these same headers cannot use a plugin with this descriptor; empty if it can.
std::string plugin_mismatch(const PluginDescriptor& descriptor);

// Loads a file that read_plugin_file found without a problem. It stays loaded until the process ends. Throws UserError
// with the dynamic linker's message if it cannot be loaded. Safe to call from any thread.
const PluginDescriptor& load_plugin_file(const std::filesystem::path& file);

// Runs what the plugin's library has registered for the end of the process: destructors of static objects and exit
// handlers. LibTorch's own are left out, which take longer than all else that a plugin is checked for. The plugin
// cannot be used afterwards.
void end_plugin(const PluginDescriptor& descriptor);

// Reads one section of a shared library's file, without loading it. The file may be anything, or cut off: every offset
// in it is checked before it is followed.

// Returns the first bytes of the section, at most `limit`, or nothing if the file is a shared library for this machine
// without such a section. Throws UserError, with a text without the file's name, if it is not one.
std::optional<std::string> read_elf_section(const std::filesystem::path& file, std::string_view name, size_t limit);

}  // namespace ddprun
