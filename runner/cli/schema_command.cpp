// SPDX-License-Identifier: MIT
// `ddprun schema`: writes a JSON Schema of experiment files, for editors.
#include "base/log.h"
#include "cli/commands.h"
#include "cli/json_schema.h"
#include "command_line/plain_commands.h"
#include "config/config_files.h"
#include "config/experiment_reader.h"
#include "plugin_host/plugin_search.h"

#include <set>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// Returns the folders that the experiment, if there is one, adds to the search path of plugins. What is wrong with the
// rest of it does not matter: it is being written.
std::vector<fs::path> plugin_folders(const Arguments& arguments) {
  if (arguments.target.empty()) return {};
  Problems problems;
  const auto experiment = load_experiment(
      {.experiment = arguments.target, .overrides = arguments.overrides, .search_path = config_search_path()},
      problems);
  return experiment.plugin_path;
}

}  // namespace

SchemaSources schema_sources(const std::vector<fs::path>& plugin_folders) {
  SchemaSources sources;
  const PluginHost host(plugin_search_path(plugin_folders));
  std::set<std::string> seen;
  for (const auto& info : host.list()) {
    if (!info.problem.empty()) {
      log::warn(info.file.string() + ": " + info.problem + "; the schema does not know it");
    } else if (seen.insert(info.kind + "/" + info.name).second) {
      sources.plugins.push_back(host.describe(info.file.string(), info.kind));
    }
  }
  std::set<std::string> files;
  for (const auto& folder : config_search_path()) {
    std::error_code error;
    for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      if (at->path().extension() != ".yaml" || at.depth() != 1) continue;
      files.insert((at->path().parent_path().filename() / at->path().stem()).string());
    }
  }
  std::erase_if(files, [](const std::string& file) { return file.starts_with("sweeps/"); });
  sources.group_files.assign(files.begin(), files.end());
  return sources;
}

int show_schema(const Arguments& arguments) {
  const auto sources = schema_sources(plugin_folders(arguments));
  const auto schema = arguments.group.empty() ? experiment_schema(sources) : group_schema(arguments.group, sources);
  return print_schema(arguments, schema_text(schema));
}

}  // namespace ddprun
