// SPDX-License-Identifier: MIT
// The commands that only show something.
#include "agent/checked_experiment.h"
#include "agent/launch_choice.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cluster/placement_text.h"
#include "config/config_files.h"
#include "config/experiment_reader.h"
#include "launch/worker_process.h"
#include "metrics/objective.h"
#include "plugin_host/plugin_check.h"
#include "plugin_host/plugin_search.h"
#include "plugin_host/plugin_text.h"

#include <ddprun/error.h>
#include <ddprun/version.h>

#include <torch/headeronly/version.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>

namespace ddprun {

int show_config(const Arguments& arguments) {
  std::cout << to_yaml(
      compose({.experiment = arguments.target, .overrides = arguments.overrides, .search_path = config_search_path()}),
      /*origins=*/true);
  return kExitDone;
}

namespace {

// Returns the first sentence of the comment that a file begins with, or the part before a colon in it.
std::string title_of(const std::filesystem::path& file) {
  std::ifstream lines(file);
  std::string text;
  for (std::string line; std::getline(lines, line) && line.size() > 2 && line.starts_with("# ");) {
    text += (text.empty() ? "" : " ") + line.substr(2);
    for (size_t end = 0; (end = text.find_first_of(".:", end)) != text.npos; ++end) {
      if (end + 1 == text.size() || text[end + 1] == ' ') return text.substr(0, end);
    }
  }
  return text;
}

bool is_in(const std::string& word, const std::string& text) { return text.find(word) != text.npos; }

std::string key_text(const OptionDeclaration& key) {
  const auto range = key.range.empty() ? "" : " " + key.range;
  const auto fallback = key.required ? ", required" : key.fallback.empty() ? "" : ", default " + key.fallback;
  const auto kind = "(" + key.type + range + fallback + ")";
  return "  " + key.name + "  " + wrapped(kind, key.name.size() + 4, 6) + "\n" + paragraph(key.help, 6);
}

// Returns the keys of the experiment file and those that the objective reads itself.
std::vector<SectionHelp> all_keys() {
  auto sections = experiment_keys();
  sections.insert(std::ranges::find(sections, "trainer", &SectionHelp::name),
                  {.name = "objective", .help = "the loss and its metrics", .keys = objective_keys()});
  return sections;
}

}  // namespace

int list_experiments(const Arguments&) {
  std::map<std::string, std::string> found;
  for (const auto& folder : config_search_path()) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "experiments", error)) {
      if (entry.path().extension() == ".yaml") found.try_emplace(entry.path().stem().string(), title_of(entry.path()));
    }
  }
  size_t width = 0;
  for (const auto& [name, text] : found) width = std::max(width, name.size());
  std::cout << "ddprun experiments/NAME.yaml trains:\n";
  for (const auto& [name, text] : found)
    std::cout << "  " << padded(name, width + 2) << wrapped(text, width + 4, width + 4) << "\n";
  return kExitDone;
}

int list_keys(const Arguments& arguments) {
  const auto& word = arguments.target;
  bool found = false;
  for (const auto& section : all_keys()) {
    std::string text;
    for (const auto& key : section.keys) {
      if (section.name == word || is_in(word, key.name) || is_in(word, key.help)) text += key_text(key);
    }
    if (text.empty()) continue;
    found = true;
    std::cout << (section.name.empty() ? "at the top" : section.name + ":") << "  # " << section.help << "\n" << text;
  }
  if (found) return kExitDone;
  throw UserError(word + ": no section, key or help text contains this word");
}

namespace {

// Checks each file in its own process: those named, or all on the search path.
int check_plugins(const Arguments& arguments) {
  const PluginSearch search(plugin_search_path({}));
  const auto known = search.list();
  std::vector<std::filesystem::path> files;
  for (const auto& word : arguments.plugins) std::ranges::copy(search.files(word), std::back_inserter(files));
  if (files.empty()) std::ranges::transform(known, std::back_inserter(files), &PluginInfo::file);
  size_t wrong = 0;
  for (const auto& file : files) {
    const auto found = check_plugin(file, known);
    std::cout << plugin_check_text(found) << std::flush;
    if (!found.problems.empty()) ++wrong;
  }
  std::cout << files.size() << (files.size() == 1 ? " plugin checked" : " plugins checked") << ", " << wrong
            << " failed\n";
  return wrong == 0 ? kExitDone : kExitFailed;
}

}  // namespace

int plugins(const Arguments& arguments) {
  if (arguments.check_plugins) return check_plugins(arguments);
  const PluginHost host(plugin_search_path({}));
  std::cout << (arguments.target.empty() ? plugin_list_text(host.list(), own_plugin_folder())
                                         : plugin_page_text(host.describe(arguments.target, arguments.kind)));
  return kExitDone;
}

// `ddprun env`: shows how this process was started and its place in a job.
int env(const Arguments& arguments) {
  const auto placement = find_placement(arguments.launch, process_environment());
  const auto machine = this_machine();
  const Installation installation{
      .ddprun = DDPRUN_VERSION, .libtorch = TORCH_VERSION, .gpus = machine.gpus, .cores = machine.cores};
  std::cout << (arguments.json ? placement_json(placement, installation) : placement_text(placement, installation));
  return kExitDone;
}

}  // namespace ddprun
