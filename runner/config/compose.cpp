// SPDX-License-Identifier: MIT
#include "config/compose.h"

#include "config/defaults_list.h"
#include "config/experiment.h"
#include "config/interpolation.h"
#include "config/key_path.h"
#include "config/merge.h"
#include "config/overrides.h"
#include "config/secrets.h"

#include <algorithm>

namespace ddprun {
namespace fs = std::filesystem;
namespace {

struct Composition {
  Value config;
  bool complete = false;                   // nothing is missing: a reader's complaints about it are true
  std::vector<std::string> failed_places;  // of values that keep their ${...}, reported already
};

void fill_in(Value& config, const fs::path& file) {
  const Origin by_default{.source = "default"};
  if (!config.find("name")) {
    const Value::Entry name{"name", by_default, Value::scalar(file.stem().string(), by_default, true)};
    config.entries().insert(config.entries().begin(), name);
  }
  if (config.find("loggers")) return;
  auto& loggers = config.set("loggers", Value::list(by_default), by_default);
  for (const auto* plugin : kDefaultLoggers) {
    auto logger = Value::map(by_default);
    logger.set("plugin", Value::scalar(plugin, by_default), by_default);
    loggers.items().push_back(std::move(logger));
  }
}

void make_absolute(Value& path) { path = absolute_paths(std::move(path)); }

// The name of a plugin stays; the path of a library must mean the same from anywhere.
void make_plugin_absolute(Value* section) {
  auto* plugin = section ? section->find("plugin") : nullptr;
  if (plugin && (plugin->text().ends_with(".so") || plugin->text().find('/') != std::string::npos))
    make_absolute(*plugin);
}

void make_paths_absolute(Value& config) {
  for (const auto* section : {"model", "dataset", "optimizer"}) make_plugin_absolute(config.find(section));
  if (auto* loggers = config.find("loggers")) {
    for (auto& logger : loggers->items()) make_plugin_absolute(&logger);
  }
  if (auto* folders = config.find("plugin_path")) make_absolute(*folders);
  for (const KeyPath& key : {KeyPath{"trainer", "init_weights"}, {"launch", "token_file"}, {"checkpoint", "resume"}}) {
    auto* path = find_at(config, key);
    if (path && path->text() != "auto" && path->text() != "never") make_absolute(*path);
  }
}

Composition compose_parts(const ComposeInput& input, Problems& problems) {
  Composition result;
  ConfigFiles files(input.search_path);
  const auto file = files.find_experiment(input.experiment, problems);
  if (!file) return result;
  files.put_first(*file);
  DefaultsComposer composer(std::move(files), problems);
  auto& config = result.config = composer.compose_experiment(*file);
  if (composer.incomplete()) return result;
  fill_in(config, *file);
  apply_overrides(config, input.overrides, composer, problems);
  if (!input.frozen) result.failed_places = interpolate(config, problems);
  expand_short_forms(config);
  check_secrets(config, problems);
  make_paths_absolute(config);
  result.complete = !composer.incomplete();
  return result;
}

}  // namespace

Value compose(const ComposeInput& input) {
  Problems problems;
  auto result = compose_parts(input, problems);
  if (!problems.empty()) throw_problems(problems);
  return std::move(result.config);
}

Experiment load_experiment(const ComposeInput& input, Problems& problems) {
  auto composed = compose_parts(input, problems);
  if (!composed.complete) throw_problems(problems);
  Problems found;
  auto experiment = read_experiment(std::move(composed.config), found);
  for (auto& problem : found) {
    const auto is_reported = [&](const std::string& place) { return problem.starts_with(place + ": "); };
    if (std::ranges::none_of(composed.failed_places, is_reported)) problems.push_back(std::move(problem));
  }
  return experiment;
}

Experiment load_experiment(const ComposeInput& input) {
  Problems problems;
  auto experiment = load_experiment(input, problems);
  if (!problems.empty()) throw_problems(problems);
  return experiment;
}

}  // namespace ddprun
