// SPDX-License-Identifier: MIT
// The commands that only tell.
#include "cli/checked_experiment.h"
#include "cli/commands.h"
#include "cli/launch_choice.h"
#include "cli/multirun.h"
#include "cli/plugin_build.h"
#include "launch/worker_process.h"
#include "log/log.h"
#include "plugin_host/plugin_check.h"
#include "plugin_host/plugin_search.h"
#include "plugin_host/plugin_text.h"

#include <ddprun/error.h>

#define BOOST_DLL_USE_STD_FS
#include <boost/dll/runtime_symbol_info.hpp>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>

namespace ddprun {

std::vector<std::filesystem::path> config_search_path() {
  std::vector<std::filesystem::path> folders;
  if (const char* listed = std::getenv("DDPRUN_CONFIG_PATH")) {
    std::istringstream stream(listed);
    for (std::string folder; std::getline(stream, folder, ':');) {
      if (!folder.empty()) folders.emplace_back(folder);
    }
  }
  const auto prefix = boost::dll::program_location().parent_path().parent_path();
  folders.push_back(prefix / "share" / "ddprun" / "configs");
  return folders;
}

int show_check(const Arguments& arguments) {
  const auto checked = check_experiment(
      {.experiment = arguments.target, .overrides = arguments.overrides, .search_path = config_search_path()});
  const auto& experiment = checked.experiment;
  const auto launch = choose_launch(experiment.launch, experiment.trainer, this_machine());
  std::cout << arguments.target << ": no mistakes found. " << experiment.name << " trains " << experiment.model.plugin
            << " on " << experiment.dataset.plugin << " with " << experiment.optimizer.plugin << ", " << launch.workers
            << (launch.workers == 1 ? " worker" : " workers") << " on " << launch.device << ", global batch "
            << experiment.trainer.global_batch << ".\n";
  if (!launch.warning.empty()) log::warn(launch.warning);
  return arguments.gradients ? check_gradients(checked) : kExitDone;
}

int show_config(const Arguments& arguments) {
  std::cout << to_yaml(
      compose({.experiment = arguments.target, .overrides = arguments.overrides, .search_path = config_search_path()}),
      /*origins=*/true);
  return kExitDone;
}

int show_keys() {
  for (const auto& section : experiment_keys()) {
    std::cout << (section.name.empty() ? "at the top" : section.name + ":") << "  # " << section.help << "\n";
    for (const auto& key : section.keys) {
      std::cout << "  " << key.name << "  (" << key.type << (key.range.empty() ? "" : " " + key.range)
                << (key.required           ? ", required"
                    : key.fallback.empty() ? ""
                                           : ", default " + key.fallback)
                << ")\n      " << key.help << "\n";
    }
  }
  return kExitDone;
}

namespace {

// Each file in a process of its own: those named, or all on the search path.
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
  std::cout << files.size() << (files.size() == 1 ? " plugin checked" : " plugins checked") << ", "
            << (wrong == 0 ? "nothing is wrong\n" : "something is wrong with " + std::to_string(wrong) + "\n");
  return wrong == 0 ? kExitDone : kExitFailed;
}

}  // namespace

int show_plugins(const Arguments& arguments) {
  if (arguments.check_plugins) return check_plugins(arguments);
  const PluginHost host(plugin_search_path({}));
  std::cout << (arguments.target.empty() ? plugin_list_text(host.list(), own_plugin_folder())
                                         : plugin_page_text(host.describe(arguments.target, arguments.kind)));
  return kExitDone;
}

int run_command(const Arguments& given) {
  const bool trains = given.command == "run" || given.command == "resume";
  if (!trains || !given.build.empty()) release_early_signals();
  auto arguments = given;
  for (const auto& folder : build_plugins(given.build))
    arguments.overrides.push_back("+plugin_path=" + folder.string());
  if (arguments.command == "check") return show_check(arguments);
  if (arguments.command == "submit") return submit(arguments);
  if (arguments.command == "config") return show_config(arguments);
  if (arguments.command == "keys") return show_keys();
  if (arguments.command == "plugins") return show_plugins(arguments);
  if (arguments.command == "env") return show_environment(arguments);
  if (arguments.command == "evaluate") return evaluate(arguments);
  if (arguments.command == "predict") return predict(arguments);
  if (arguments.command == "export") return export_weights(arguments);
  if (arguments.command == "verify") return verify(arguments);
  if (arguments.command == "report") return report(arguments);
  if (arguments.command == "list") return list(arguments);
  if (arguments.command == "upload") return upload(arguments);
  if (arguments.command == "watch") return watch(arguments);
  if (arguments.command == "resume") return resume(arguments);
  return arguments.multirun ? multirun(arguments) : train(arguments);
}

}  // namespace ddprun
