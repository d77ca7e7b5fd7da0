// SPDX-License-Identifier: MIT
// The commands that only show something.
#include "agent/checked_experiment.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "config/config_files.h"
#include "config/experiment_reader.h"
#include "launch/worker_process.h"
#include "metrics/objective.h"
#include "plugin_host/plugin_check.h"
#include "plugin_host/plugin_search.h"
#include "plugin_host/plugin_text.h"

#include <ddprun/error.h>

#include <algorithm>
#include <iostream>

namespace ddprun {

int show_config(const Arguments& arguments) {
  std::cout << to_yaml(
      compose({.experiment = arguments.target, .overrides = arguments.overrides, .search_path = config_search_path()}),
      /*origins=*/true);
  return kExitDone;
}

namespace {

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
  const auto known = search.known();
  std::vector<std::filesystem::path> files;
  for (const auto& word : arguments.plugins) std::ranges::copy(search.files(word), std::back_inserter(files));
  if (files.empty()) std::ranges::transform(search.list(), std::back_inserter(files), &PluginInfo::file);
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

}  // namespace ddprun
