// SPDX-License-Identifier: MIT
// Finds plugins on a search path, checks their descriptors in the file, loads them, and makes their objects.
#pragma once

#include "config/experiment.h"
#include "plugin_host/plugin_file.h"
#include "plugin_host/plugin_search.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

class Callback;
class Dataset;
class Logger;
class Model;
class Objective;
class Optimizer;

// Returns "mnist.yaml:3:10: model: plugin lenet", which precedes a text about a plugin that an experiment names.
std::string plugin_place(const PluginChoice& choice);

// What an object's constructor declared.
struct PluginDescription {
  PluginInfo info;
  std::vector<OptionDeclaration> options;
  std::string problem;   // what the constructor threw without options; empty if nothing
  bool refused = false;  // it was a UserError: the plugin needs options
};

// Libraries are never unloaded, because objects contain their code. The command and each worker make one; not
// thread-safe.
class PluginHost {
 public:
  using Names = std::vector<std::string>;

  // `search_path` has the folders to search, as from plugin_search_path().
  explicit PluginHost(std::vector<std::filesystem::path> search_path) : search_(std::move(search_path)) {}

  // These throw UserError: not found (with the nearest name), a flaw of the file, or the constructor's error, with all
  // mistakes in the options, one per line. `paths`, if given, receives the names of the options that are paths.
  std::shared_ptr<Model> make_model(const PluginChoice& choice, Names* paths = nullptr) const;
  std::shared_ptr<Dataset> make_dataset(const PluginChoice& choice, Names* paths = nullptr) const;
  std::shared_ptr<Optimizer> make_optimizer(const PluginChoice& choice, Names* paths = nullptr) const;
  std::shared_ptr<Objective> make_objective(const PluginChoice& choice, Names* paths = nullptr) const;
  std::shared_ptr<Logger> make_logger(const PluginChoice& choice, Names* paths = nullptr) const;
  std::shared_ptr<Callback> make_callback(const PluginChoice& choice, Names* paths = nullptr) const;

  // Returns all plugin files on the search path, or those of a kind, including flawed ones, without loading any. Builds
  // those that this clone has not built yet.
  std::vector<PluginInfo> list(const std::string& kind = "") const { return search_.list(kind); }

  // Returns the same without building: of a plugin that is not built yet only file, kind and name.
  std::vector<PluginInfo> known() const { return search_.known(); }

  // Builds those that are not built yet at once; make_...() would build one after the other.
  void build(const std::vector<const PluginChoice*>& choices) const;

  // Loads it and constructs one object without options, to learn what it declares. An empty kind matches any.
  PluginDescription describe(const std::string& name_or_path, const std::string& kind) const;

 private:
  template <class Kind>
  std::shared_ptr<Kind> make(const std::string& kind, const PluginChoice& choice, Names* paths) const;
  PluginSearch search_;
};

}  // namespace ddprun
