// SPDX-License-Identifier: MIT
// The agent of a node: it starts the node's workers for each attempt of a run. The first node's agent also keeps the
// run's folder, decides with the coordinator, and says how the run has ended; the others join it.
#pragma once

#include "agent/checked_experiment.h"
#include "agent/early_signals.h"
#include "agent/node_setup.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// What the command line asks for.
struct RunRequest {
  const std::vector<std::string>& words;      // the whole command line, kept in the run folder
  const std::vector<std::string>& overrides;  // key=value and the like
  bool carries_plugins = false;               // plugins made by --build go into the run's folder
  const CheckedExperiment& checked;
  double started_at = 0;               // steady_seconds() when the command began
  std::filesystem::path resumed;       // the folder of the run to resume; empty: as the experiment says
  std::optional<EarlySignals>& early;  // handled until the run is open, by the first node's agent
};

// Returns the program's exit code at the run's end. Throws UserError if the run cannot start.
int run_agent(const NodeSetup& setup, const RunRequest& request);

}  // namespace ddprun
