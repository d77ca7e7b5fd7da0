// SPDX-License-Identifier: MIT
// Finds plugins on a search path, checks their descriptors from the file alone, loads them, makes their objects.
#pragma once

#include "config/experiment.h"

#include <ddprun/dataset.h>
#include <ddprun/descriptor.h>
#include <ddprun/logger.h>
#include <ddprun/model.h>
#include <ddprun/optimizer.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

// A plugin file as its descriptor tells, without having run a line of it.
struct PluginInfo {
  std::filesystem::path file;
  std::string kind, name, help;
  std::string sdk_version, torch_version, compiler;
  std::string problem;  // why it cannot be loaded; empty where it can
};

// What an object's constructor declared.
struct PluginDescription {
  PluginInfo info;
  std::vector<OptionDeclaration> options;
};

// Objects hold code of their library: libraries are never unloaded. Made once by the command and by each worker; used from one
// thread.
class PluginHost {
 public:
  // Folders in the order of preference; each is searched itself and in its folders models, datasets, optimizers, loggers.
  explicit PluginHost(std::vector<std::filesystem::path> search_path);

  // Each throws UserError: not found (with the nearest name), a flaw of the file, or what the constructor said; with all the
  // mistakes in the options, one a line.
  std::shared_ptr<Model> make_model(const PluginChoice& choice);
  std::shared_ptr<Dataset> make_dataset(const PluginChoice& choice);
  std::shared_ptr<Optimizer> make_optimizer(const PluginChoice& choice);
  std::shared_ptr<Logger> make_logger(const PluginChoice& choice);

  // All plugin files on the search path, the flawed ones too, without loading any.
  std::vector<PluginInfo> list() const;

  // Loads it and constructs one object with no options, to learn what it declares. An empty kind finds the name in any.
  PluginDescription describe(const std::string& name_or_path, const std::string& kind);

 private:
  template <class Kind>
  std::shared_ptr<Kind> make(const std::string& kind, const PluginChoice& choice);
  std::vector<std::filesystem::path> search_path_;
};

// The plugins' folders: those of the experiment, $DDPRUN_PLUGIN_PATH, and the program's own. Never the current folder.
std::vector<std::filesystem::path> plugin_search_path(const std::vector<std::filesystem::path>& from_experiment);

}  // namespace ddprun
