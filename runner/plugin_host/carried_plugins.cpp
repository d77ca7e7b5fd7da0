// SPDX-License-Identifier: MIT
#include "plugin_host/carried_plugins.h"

#include "base/run_files.h"
#include "config/config_files.h"
#include "config/experiment_reader.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <string>
#include <system_error>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

fs::path carried_folder(const fs::path& run_dir) { return run_dir / "plugins"; }

// Returns whether the path lies in any build cache: the run may have been moved to another user's.
bool is_build(const fs::path& path) {
  const auto cache = path.parent_path();
  return cache.filename() == "built" && cache.parent_path().filename() == "ddprun";
}

void copy_to(const fs::path& folder, const fs::path& file) try {
  replace_file(folder / file.filename(), content_of(file));
} catch (const UserError& error) {
  throw UserError("cannot copy the plugin " + file.string() + " into the run: " + error.what());
}

}  // namespace

void carry_built_plugins(const std::vector<fs::path>& plugin_files, const fs::path& run_dir) {
  const auto folder = carried_folder(run_dir);
  for (const auto& file : plugin_files) {
    if (!is_build(file.parent_path())) continue;
    std::error_code ignored;  // copy_to() reports it
    fs::create_directory(folder, ignored);
    for (const auto& entry : fs::directory_iterator(file.parent_path())) copy_to(folder, entry.path());
  }
}

void find_carried_plugins(Experiment& experiment, const fs::path& run_dir) {
  const auto folder = carried_folder(run_dir);
  std::error_code ignored;
  auto* folders = experiment.config.find("plugin_path");
  if (!folders || !fs::is_directory(folder, ignored)) return;
  std::erase_if(experiment.plugin_path, is_build);
  std::erase_if(folders->items(), [&](const Value& path) { return is_build(path.text()); });
  experiment.plugin_path.push_back(folder);
  folders->items().push_back(Value::scalar(folder.string(), {}, /*quoted=*/true));
}

Experiment recorded_experiment(const fs::path& run_dir) {
  auto experiment =
      load_experiment({.experiment = run_dir / "config.yaml", .search_path = config_search_path(), .frozen = true});
  find_carried_plugins(experiment, run_dir);
  return experiment;
}

}  // namespace ddprun
