// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_host.h"

#include "base/log.h"
#include "config/defaults_list.h"
#include "config/secrets.h"
#include "plugin_host/plugin_call.h"

#include <ddprun/error.h>

#include <algorithm>

namespace ddprun {
namespace {

// Returns "mnist.yaml:3:10: model: ", which precedes a text about the plugin that an experiment names.
std::string place(const PluginChoice& choice) {
  const auto origin = choice.origin.text();
  return (origin.empty() ? "" : origin + ": ") + (choice.path.empty() ? "" : choice.path + ": ");
}

std::string lines(const std::vector<std::string>& problems) {
  std::string text;
  for (const auto& problem : problems) text += (text.empty() ? "" : "\n") + problem;
  return text;
}

// Returns the mistakes that a constructor noted before it threw. What it would have declared after that is not unknown.
std::vector<std::string> noted_problems(const Options& options, const Value& values) {
  const auto undeclared = std::ranges::count_if(values.entries(), [&](const auto& entry) {
    return std::ranges::find(options.declared(), entry.key, &OptionDeclaration::name) == options.declared().end();
  });
  auto problems = options.problems();  // the undeclared keys come last
  problems.resize(problems.size() - undeclared);
  return problems;
}

template <class Kind>
std::shared_ptr<Kind> construct(const PluginDescriptor& descriptor, Options& options) {
  std::shared_ptr<Kind> object;
  const Hook constructor{descriptor.kind, "constructor"};
  const CurrentOpScope scope(constructor);
  descriptor.create(&options, &object);
  if (!object) throw std::logic_error("its create function returned no object");
  return object;
}

// Constructs an object and turns what the constructor threw into the text `problem`, with `refused` if it was a
// UserError.
template <class Kind>
std::shared_ptr<Kind> try_construct(const PluginInfo& info, Options& options, std::string& problem, bool& refused) {
  const auto who = "plugin " + info.name + " (" + info.file.string() + ")";
  const auto& descriptor = load_plugin_file(info.file);
  try {
    return construct<Kind>(descriptor, options);
  } catch (const UserError& error) {
    refused = true;
    problem = who + ": " + error.what();
  } catch (const std::exception& error) {
    problem = who + " threw while it was constructed: " + error.what();
  } catch (...) {
    problem = who + " threw something that is not a std::exception while it was constructed";
  }
  return nullptr;
}

}  // namespace

template <class Kind>
std::shared_ptr<Kind> PluginHost::make(const std::string& kind, const PluginChoice& choice, Names* paths) const {
  Options options(with_secrets(choice.options, choice.path), choice.path);
  std::string problem;
  bool refused = false;
  std::shared_ptr<Kind> object;
  try {
    object = try_construct<Kind>(search_.find(choice.plugin, kind), options, problem, refused);
  } catch (const UserError& error) {
    throw UserError(place(choice) + error.what());
  }
  auto problems = problem.empty() ? options.problems() : noted_problems(options, choice.options);
  if (!problem.empty()) problems.push_back(place(choice) + problem);
  if (!problems.empty()) throw UserError(log::masked(lines(problems)));
  for (const auto& option : options.declared()) {
    if (paths && (option.type == "path" || option.type == "list of path")) paths->push_back(option.name);
  }
  return object;
}

std::string plugin_place(const PluginChoice& choice) {
  const auto word = "command line: " + choice.path + "=" + choice.plugin;  // says section and plugin already
  return choice.origin.text() == word ? word : place(choice) + "plugin " + choice.plugin;
}

std::shared_ptr<Model> PluginHost::make_model(const PluginChoice& choice, Names* paths) const {
  return make<Model>("model", choice, paths);
}

std::shared_ptr<Dataset> PluginHost::make_dataset(const PluginChoice& choice, Names* paths) const {
  return make<Dataset>("dataset", choice, paths);
}

std::shared_ptr<Optimizer> PluginHost::make_optimizer(const PluginChoice& choice, Names* paths) const {
  return make<Optimizer>("optimizer", choice, paths);
}

std::shared_ptr<Objective> PluginHost::make_objective(const PluginChoice& choice, Names* paths) const {
  return make<Objective>("objective", choice, paths);
}

std::shared_ptr<Logger> PluginHost::make_logger(const PluginChoice& choice, Names* paths) const {
  return make<Logger>("logger", choice, paths);
}

std::shared_ptr<Callback> PluginHost::make_callback(const PluginChoice& choice, Names* paths) const {
  return make<Callback>("callback", choice, paths);
}

void PluginHost::build(const std::vector<const PluginChoice*>& choices) const {
  std::vector<PluginName> plugins;
  for (const auto* choice : choices)
    plugins.push_back({choice->plugin, group_of_key(choice->path.substr(0, choice->path.find('[')))});
  search_.build(plugins);
}

PluginDescription PluginHost::describe(const std::string& name_or_path, const std::string& kind) const {
  PluginDescription description{.info = search_.find(name_or_path, kind)};
  const auto& info = description.info;
  Options options(Value::map(), info.name);
  auto& problem = description.problem;
  auto& refused = description.refused;
  if (info.kind == "model") try_construct<Model>(info, options, problem, refused);
  if (info.kind == "dataset") try_construct<Dataset>(info, options, problem, refused);
  if (info.kind == "optimizer") try_construct<Optimizer>(info, options, problem, refused);
  if (info.kind == "objective") try_construct<Objective>(info, options, problem, refused);
  if (info.kind == "logger") try_construct<Logger>(info, options, problem, refused);
  if (info.kind == "callback") try_construct<Callback>(info, options, problem, refused);
  description.options = options.declared();
  return description;
}

}  // namespace ddprun
