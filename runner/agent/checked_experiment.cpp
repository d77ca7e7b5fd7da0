// SPDX-License-Identifier: MIT
#include "agent/checked_experiment.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/run_files.h"
#include "checkpoint/checkpoint.h"
#include "config/defaults_list.h"
#include "config/experiment_reader.h"
#include "config/interpolation.h"
#include "config/key_path.h"
#include "config/monitors.h"
#include "config/yaml_reader.h"
#include "metrics/objective.h"
#include "plugin_host/carried_plugins.h"
#include "plugin_host/plugin_call.h"
#include "plugin_host/plugin_host.h"
#include "shown_text.h"

#include <ddprun/callback.h>
#include <ddprun/dataset.h>
#include <ddprun/error.h>
#include <ddprun/files.h>
#include <ddprun/logger.h>
#include <ddprun/model.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <string>
#include <system_error>

namespace ddprun {
namespace {

// Runs one check and adds its findings to the others.
template <class Check>
void collect(std::vector<std::string>& problems, Check&& check) {
  try {
    check();
  } catch (const UserError& error) {
    problems.emplace_back(error.what());
  }
}

void check_monitors(const Experiment& experiment, const Objective& objective, std::vector<std::string>& problems) {
  std::vector<std::string> known;
  const auto names = metric_names(experiment.objective.plugin, objective);
  for (const std::string split : {"train/", "val/"}) {
    for (const auto& name : names.means) known.push_back(split + name);
  }
  for (const auto& name : names.of_evaluations) known.push_back("val/" + name);
  if (experiment.trainer.clip_norm > 0) known.push_back("train/grad_norm");
  for (const auto& monitor : unknown_monitors(experiment, known))
    problems.push_back(problem_line(monitor.origin, monitor.key, unknown_metric(monitor.metric, known)));
}

// Makes paths absolute, so that they mean the same to a reader in another folder. A secret stays the text that names
// it.
void freeze_paths(Value& config, const PluginChoice& choice, const std::vector<std::string>& names) {
  auto* section = find_at(config, *parse_key_path(choice.path));
  for (const auto& name : names) {
    auto* path = section->find(name);
    if (path && path->text().find(kSecretOpen) == std::string::npos) *path = absolute_paths(std::move(*path));
  }
}

// Notes the first text or place that the run's config.yaml could not hold.
void check_text(const Value& value, const std::string& path, std::vector<std::string>& problems) {
  if (!problems.empty()) return;
  const bool is_text = is_utf8(value.text());
  if (value.is_scalar() && !(is_text && is_utf8(value.origin().source))) {
    const auto what = is_text ? "the name of its file" : "\"" + value.text() + "\"";
    problems.push_back(to_utf8(problem_line(
        value.origin(), path,
        what + " is not UTF-8 text, which a run's files cannot hold; rename the file or folder, or link to it")));
  }
  for (size_t i = 0; i < value.items().size(); ++i)
    check_text(value.items()[i], path + "[" + std::to_string(i) + "]", problems);
  for (const auto& [key, origin, entry] : value.entries())
    check_text(entry, path.empty() ? key : path + "." + key, problems);
}

// Adds a logger without options to the experiment.
void add_logger(Experiment& experiment, const std::string& plugin, const std::string& needed_by) {
  const Origin origin{.source = "needed by " + needed_by};
  auto entry = Value::map(origin);
  entry.set("plugin", Value::scalar(plugin, origin), origin);
  experiment.config.find("loggers")->items().push_back(std::move(entry));
  experiment.loggers.push_back({.plugin = plugin,
                                .options = Value::map(origin),
                                .path = log::text("loggers[", experiment.loggers.size(), "]"),
                                .origin = origin});
}

// Notes what a logger has run beside the run, with the logger whose files that reads.
void take_sidecar(CheckedExperiment& checked, const PluginChoice& choice, const Sidecar& sidecar) {
  if (sidecar.command.empty()) return;
  const auto is_same = [&](const PlacedSidecar& other) { return other.sidecar.name == sidecar.name; };
  if (std::ranges::any_of(checked.sidecars, is_same))
    throw UserError(plugin_place(choice) + ": another logger sends the run to " + sidecar.name + " already; keep one");
  checked.sidecars.push_back({sidecar, plugin_place(choice)});
  auto& experiment = checked.experiment;
  const auto writes = [&](const PluginChoice& other) { return other.plugin == sidecar.reads; };
  if (!sidecar.reads.empty() && std::ranges::none_of(experiment.loggers, writes))
    add_logger(experiment, sidecar.reads, choice.path);
}

std::vector<UsedPlugin> plugins_of(const Experiment& experiment, const PluginHost& host) {
  const auto known = host.known();
  std::vector<UsedPlugin> plugins;
  for (const auto* choice : plugin_choices(experiment)) {
    const auto kind = group_of_key(choice->path.substr(0, choice->path.find('[')));
    const auto info = std::ranges::find_if(
        known, [&](const PluginInfo& plugin) { return plugin.kind == kind && plugin.name == choice->plugin; });
    plugins.push_back({.path = choice->path,
                       .plugin = choice->plugin,
                       .file = info == known.end() ? std::filesystem::path(choice->plugin) : info->file});
  }
  return plugins;
}

}  // namespace

std::set<FixedKey::By> fixed_in(const std::filesystem::path& run, std::set<FixedKey::By> by) {
  if (!checkpoint_steps(run).empty()) by.insert(FixedKey::By::kCheckpoint);
  return by;
}

CheckedExperiment check_experiment(const ComposeInput& input, const std::set<FixedKey::By>& fixed) {
  std::vector<std::string> problems;
  const auto all_fixed = fixed.empty() ? fixed : fixed_in(input.experiment.parent_path(), fixed);
  CheckedExperiment checked{.experiment = load_experiment(input, problems, all_fixed)};
  auto& experiment = checked.experiment;
  if (input.frozen) find_carried_plugins(experiment, input.experiment.parent_path());
  checked.as_written = experiment.config;
  const PluginHost host(plugin_search_path(experiment.plugin_path));
  const auto before_build = steady_seconds();
  host.build(plugin_choices(experiment));
  checked.build_seconds = steady_seconds() - before_build;
  const auto check = [&](const PluginChoice& choice, const auto& make) {
    if (choice.plugin.empty()) return;
    collect(problems, [&] {
      std::vector<std::string> paths;
      make(choice, &paths);
      freeze_paths(experiment.config, choice, paths);
    });
  };
  std::shared_ptr<Model> model;
  check(experiment.model, [&](const auto&... arguments) { model = host.make_model(arguments...); });
  check(experiment.dataset, [&](const auto&... arguments) { checked.dataset = host.make_dataset(arguments...); });
  check(experiment.optimizer, [&](const auto&... arguments) { host.make_optimizer(arguments...); });
  for (const auto& callback : experiment.callbacks)
    check(callback, [&](const auto&... arguments) { host.make_callback(arguments...); });
  for (size_t i = 0; i < experiment.loggers.size(); ++i) {  // which a sidecar may add to
    const auto logger = experiment.loggers[i];
    check(logger,
          [&](const auto&... arguments) { take_sidecar(checked, logger, host.make_logger(arguments...)->sidecar()); });
  }
  std::shared_ptr<Objective> objective;
  check(experiment.objective,
        [&](const auto& choice, auto* paths) { objective = make_objective(choice, host, paths); });
  const bool is_built_in = is_built_in_objective(experiment.objective.plugin);
  const bool is_to_train = !input.frozen;  // a run's recorded experiment is also evaluated
  if (is_to_train && model && objective && is_built_in && model->has_default_step())
    check_monitors(experiment, *objective, problems);
  check_text(experiment.config, "", problems);
  if (!problems.empty()) throw_problems(problems);
  checked.plugins = plugins_of(experiment, host);
  checked.places = places_of(experiment);
  return checked;
}

std::vector<std::filesystem::path> files_of(const std::vector<UsedPlugin>& plugins) {
  std::vector<std::filesystem::path> files;
  for (const auto& plugin : plugins) files.push_back(plugin.file);
  return files;
}

namespace {

constexpr std::chrono::seconds kPause{5};

// Returns a progress line; in a file it writes one every few seconds, so that quick work leaves none.
Progress display() {
  return [live = isatty(STDERR_FILENO) == 1, shown = std::chrono::steady_clock::now()](
             const std::string& text, int64_t done, int64_t total) mutable {
    if (!live && total > 0 && std::chrono::steady_clock::now() - shown < kPause) return;
    shown = std::chrono::steady_clock::now();
    const int64_t percent = total > 0 ? done * 100 / total : 0;
    const auto line = "ddprun: " + log::shown(text) + (total > 0 ? ": " + std::to_string(percent) + " %" : "");
    const bool finished = total > 0 && done >= total;
    std::fprintf(stderr, live ? "\r\033[2K%s%s" : "%s%s", line.c_str(), live && !finished ? "" : "\n");
    std::fflush(stderr);
  };
}

}  // namespace

void prepare_data(const CheckedExperiment& checked) {
  with_places(checked.places, [&] { in_plugin({"dataset", "prepare"}, [&] { checked.dataset->prepare(display()); }); });
}

}  // namespace ddprun
