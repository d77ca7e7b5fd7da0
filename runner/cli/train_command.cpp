// SPDX-License-Identifier: MIT
// `ddprun EXPERIMENT` and `ddprun resume RUN`: what they train.
#include "agent/agent.h"
#include "agent/checked_experiment.h"
#include "agent/early_signals.h"
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/multirun.h"
#include "config/config_files.h"
#include "config/resumed_keys.h"
#include "launch/run_folder.h"

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun {

namespace fs = std::filesystem;

int train(const Arguments& arguments, const std::vector<std::string>& overrides) {
  const double started_at = steady_seconds();
  std::optional<EarlySignals> early(std::in_place);
  const bool resumes = arguments.command == "resume";
  const auto run = resumes ? existing_part(arguments.target) : fs::path();
  using enum FixedKey::By;
  const auto fixed = resumes ? std::set{kFolder, kSubmit} : std::set<FixedKey::By>();
  const auto checked = check_experiment({.experiment = resumes ? run / "config.yaml" : fs::path(arguments.target),
                                         .overrides = overrides,
                                         .search_path = config_search_path(),
                                         .frozen = resumes},
                                        fixed);
  return with_places(checked.places, [&] {
    const auto setup = find_node_setup(arguments.launch, checked.experiment);
    return run_agent(setup, {.words = arguments.words,
                             .overrides = arguments.overrides,
                             .carries_plugins = !arguments.build.empty(),
                             .checked = checked,
                             .started_at = started_at + checked.build_seconds,
                             .resumed = run,
                             .early = early});
  });
}

int resume(const Arguments& arguments) { return train(arguments, arguments.overrides); }

int run(const Arguments& arguments) {
  if (arguments.show_config) return show_config(arguments);
  if (arguments.multirun) return multirun(arguments);
  return train(arguments, arguments.overrides);
}

}  // namespace ddprun
