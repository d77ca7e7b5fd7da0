// SPDX-License-Identifier: MIT
#include "cli/first_experiment.h"

#include "config/config_files.h"
#include "config/interpolation.h"
#include "config/override.h"
#include "plugin_host/plugin_call.h"

#include <ddprun/error.h>

#include <algorithm>
#include <fstream>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::pair<std::string, Value> option_of(const std::string& text) {
  Problems problems;
  const auto change = parse_override(text, problems);
  if (!problems.empty()) throw UserError(problems.front());
  if (!change || change->path.size() != 2 || change->path.front() != "dataset" || change->value.is_null() ||
      change->path.back() == "plugin")
    throw UserError(
        text +
        ": init takes options of the dataset alone, dataset.KEY=VALUE; change the rest in the file that it writes");
  return {change->path.back(), change->value};
}

// Returns "  KEY: VALUE  # as asked for".
std::string line_of(const std::string& option, const Value& value) {
  auto dataset = Value::map(), whole = Value::map();
  dataset.set(option, value);
  whole.set("dataset", dataset);
  auto lines = to_yaml(whole, /*origins=*/false);
  lines.pop_back();
  return lines.substr(lines.find('\n') + 1) + "  # as asked for\n";
}

}  // namespace

FirstExperiment::FirstExperiment(const char* yaml_template, fs::path file, const std::string& name,
                                 std::vector<std::string> overrides)
    : template_(yaml_template), path_(std::move(file)), file_(path_), overrides_(std::move(overrides)) {
  for (size_t at = 0; (at = template_.find("${", at)) != template_.npos; at += 2)
    values_[template_.substr(at + 2, template_.find('}', at) - at - 2)];
  for (const auto& text : overrides_) {
    asked_.push_back(option_of(text));  // its line goes to the end
    const auto line = template_.find("\n  " + asked_.back().first + ": ");
    if (line != template_.npos) template_.erase(line, template_.find('\n', line + 1) - line);
  }
  values_["name"] = {escape_references(name)};
}

bool FirstExperiment::is_asked_for(const std::string& option) const {
  return std::ranges::find(asked_, option, &std::pair<std::string, Value>::first) != asked_.end();
}

void FirstExperiment::set(const std::string& place, const std::string& value) { values_.at(place) = {value}; }

void FirstExperiment::set_paths(const std::string& place, const std::vector<fs::path>& paths) {
  const auto folder = fs::absolute(path_).lexically_normal().parent_path();
  values_.at(place).clear();
  for (const auto& path : paths) {
    const auto below = path.lexically_relative(folder);
    const bool is_below = !below.empty() && *below.begin() != "..";
    values_.at(place).push_back(escape_references((is_below ? below : path).string()));
  }
}

void FirstExperiment::leave_out(const std::string& place) { values_.at(place).clear(); }

std::string FirstExperiment::text() const {
  auto text = filled(template_, values_);
  for (const auto& [option, value] : asked_) text += line_of(option, value);
  return text;
}

CheckedExperiment FirstExperiment::opened(const std::vector<std::string>& more) const {
  std::ofstream(file_.temporary()) << text();
  auto overrides = overrides_;
  overrides.insert(overrides.end(), more.begin(), more.end());
  auto checked =
      check_experiment({.experiment = file_.temporary(), .overrides = overrides, .search_path = config_search_path()});
  try {
    in_plugin({"dataset", "prepare"}, [&] { checked.dataset->prepare([](const std::string&, int64_t, int64_t) {}); });
    in_plugin({"dataset", "start"}, [&] { checked.dataset->start(); });
  } catch (const FromPlugin& error) {
    throw UserError(error.problem);
  }
  return checked;
}

void FirstExperiment::write() {
  std::ofstream(file_.temporary()) << text();
  file_.keep();
}

}  // namespace ddprun
