// SPDX-License-Identifier: MIT
// `ddprun upload RUN`: sends what a run's loggers could not send while it ran.
#include "agent/checked_experiment.h"
#include "agent/chosen_checkpoint.h"
#include "agent/run_end.h"
#include "base/log.h"
#include "cli/commands.h"
#include "launch/worker_process.h"

#include <iostream>

namespace ddprun {

int upload(const Arguments& arguments) {
  const auto run = existing_run(arguments.target);
  const auto checked = check_experiment({.experiment = run / "config.yaml",
                                         .overrides = arguments.overrides,
                                         .search_path = config_search_path(),
                                         .frozen = true});
  int code = kExitDone;
  for (const auto& upload : upload_run(run, checked.experiment)) {
    if (upload.problem.empty()) continue;
    log::error("logger " + upload.logger + ": " + upload.problem);
    code = kExitFailed;
  }
  if (code == kExitDone) std::cout << run.string() << ": nothing is left to send\n";
  return code;
}

}  // namespace ddprun
