// SPDX-License-Identifier: MIT
// Finds the file of a plugin.
#pragma once

#include "plugin_host/plugin_file.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

struct PluginName {
  std::string choice, kind;  // as find() takes them
};

class PluginSearch {
 public:
  // Searches each folder itself and its subfolders models, datasets and so on, one for each kind. Their order does not
  // matter: a name that two files have is an error.
  explicit PluginSearch(std::vector<std::filesystem::path> folders) : folders_(std::move(folders)) {}

  // Returns all plugin files, or those of a kind, sorted by kind and name, the flawed ones last. Reads their
  // descriptors anew. Builds first what this clone makes and has not built yet (base/on_demand.h); throws UserError if
  // that fails.
  std::vector<PluginInfo> list(const std::string& kind = "") const;

  // Returns the same without building: of a plugin that is not built yet only file, kind and name.
  std::vector<PluginInfo> known() const;

  // Builds those of the named plugins that are not built yet, at once. find() and files() do so for the one they are
  // asked for.
  void build(const std::vector<PluginName>& plugins) const;

  // Returns the file of this name and kind that has no flaw; an empty kind matches any. `choice` is a name, the path of
  // a .so (with a slash; relative to the current folder), or the bare name of a .so file on the search path. Throws
  // UserError.
  PluginInfo find(const std::string& choice, const std::string& kind) const;

  // Returns the files that `choice` may mean, including flawed ones: the path of a file, or a name that several kinds
  // may have. Throws UserError if there is none.
  std::vector<std::filesystem::path> files(const std::string& choice) const;

 private:
  std::vector<PluginInfo> built() const;
  std::vector<PluginInfo> unbuilt() const;
  std::vector<PluginInfo> candidates(const std::string& choice, const std::string& kind) const;
  [[noreturn]] void not_found(const std::string& choice, const std::string& kind) const;
  std::string folders_text() const;

  std::vector<std::filesystem::path> folders_;
};

// Returns the folder of the program's own plugins: ../lib/ddprun/plugins relative to its own folder.
std::filesystem::path own_plugin_folder();

// Returns the plugins' folders: those of the experiment, of $DDPRUN_PLUGIN_PATH (separated by colons), and the
// program's own. Never includes the current folder, unless it is named.
std::vector<std::filesystem::path> plugin_search_path(const std::vector<std::filesystem::path>& from_experiment);

}  // namespace ddprun
