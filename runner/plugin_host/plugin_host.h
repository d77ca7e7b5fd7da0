// SPDX-License-Identifier: MIT
// Finds plugins on a search path, checks their descriptors from the file alone, loads them, makes their objects.
#pragma once

#include "config/experiment.h"
#include "plugin_host/plugin_file.h"
#include "plugin_host/plugin_search.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class Dataset;
class Logger;
class Model;
class Optimizer;

// "mnist.yaml:3:10: model: plugin lenet": what stands before a text about a plugin that an experiment names.
std::string plugin_place(const PluginChoice& choice);

// What an object's constructor declared.
struct PluginDescription {
  PluginInfo info;
  std::vector<OptionDeclaration> options;
  std::string problem;   // what the constructor threw when it got no options; empty where it threw nothing
  bool refused = false;  // that was a UserError: it cannot do without options
};

// Objects hold code of their library: libraries are never unloaded. Made once by the command and by each worker; used
// from one thread.
class PluginHost {
 public:
  using Names = std::vector<std::string>;

  // The folders to search, as of plugin_search_path().
  explicit PluginHost(std::vector<std::filesystem::path> search_path) : search_(std::move(search_path)) {}

  // Each throws UserError: not found (with the nearest name), a flaw of the file, or what the constructor said; with
  // all the mistakes in the options, one a line. `paths`, where it is given, receives the names of the options that are
  // paths.
  std::shared_ptr<Model> make_model(const PluginChoice& choice, Names* paths = nullptr) const;
  std::shared_ptr<Dataset> make_dataset(const PluginChoice& choice, Names* paths = nullptr) const;
  std::shared_ptr<Optimizer> make_optimizer(const PluginChoice& choice, Names* paths = nullptr) const;
  std::shared_ptr<Logger> make_logger(const PluginChoice& choice, Names* paths = nullptr) const;

  // All plugin files on the search path, the flawed ones too, without loading any.
  std::vector<PluginInfo> list() const { return search_.list(); }

  // Loads it and constructs one object with no options, to learn what it declares. An empty kind finds the name in any.
  PluginDescription describe(const std::string& name_or_path, const std::string& kind) const;

 private:
  template <class Kind>
  std::shared_ptr<Kind> make(const std::string& kind, const PluginChoice& choice, Names* paths) const;
  PluginSearch search_;
};

}  // namespace ddprun
