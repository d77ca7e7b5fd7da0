// SPDX-License-Identifier: MIT
// The agent of a node: it starts the node's workers for each attempt of a run. The first node's agent also keeps the
// run's folder, decides with the coordinator, and tells how the run has ended; the others join it.
#pragma once

#include "agent/checked_experiment.h"
#include "agent/node_setup.h"
#include "launch/run_folder.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ddprun {

// A run that is ready for its first attempt under this command.
struct PreparedRun {
  RunFolder folder;
  std::filesystem::path checkpoint;  // to start from if the folder has none; may be empty
};

// What the command line asks for.
struct RunRequest {
  const std::vector<std::string>& words;      // the whole command line, kept in the run folder
  const std::vector<std::string>& overrides;  // key=value and the like
  bool carries_plugins = false;               // plugins made by --build go into the run's folder
  CheckedExperiment& checked;     // its data are prepared by `make` on the first node, by run_agent() on others
  double started_at = 0;          // steady_seconds() when the command began
  std::filesystem::path run_dir;  // as the command names it; empty: a new one below outputs/<name>
  // Creates the run. The first node's agent calls it after it listens, so that a failure shows before the other nodes
  // are kept busy.
  std::function<PreparedRun()> make;
};

// Returns the program's exit code at the run's end. Throws UserError if the run cannot start.
int run_agent(NodeSetup setup, const RunRequest& request);

}  // namespace ddprun
