// SPDX-License-Identifier: MIT
// This launcher's part in a run: it leads (keeps the run's folder, decides with the coordinator, tells the end), or it
// follows the launcher that does.
#pragma once

#include "agent/checked_experiment.h"
#include "agent/site.h"
#include "launch/run_folder.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ddprun {

// A run that is ready for its first attempt of today.
struct PreparedRun {
  RunFolder folder;
  std::filesystem::path checkpoint;  // to begin with where the folder has none; may be empty
};

struct Part {
  const std::vector<std::string>& words;      // the whole command line, for the record
  const std::vector<std::string>& overrides;  // key=value and the like
  bool carries_plugins = false;               // those that --build has made go into the run's folder
  CheckedExperiment& checked;     // of the leader, its data are prepared by `make`; of the others, here
  double started_at = 0;          // seconds since 1970
  std::filesystem::path run_dir;  // as the command names it; empty: a new one below outputs/<name>
  // Called by the launcher that leads, once it listens: whatever can fail has its say before the others are kept busy.
  std::function<PreparedRun()> make;
};

// To the run's end. Returns the program's exit code. Throws UserError for what keeps the run from starting.
int take_part(Site site, const Part& part);

}  // namespace ddprun
