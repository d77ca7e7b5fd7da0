// SPDX-License-Identifier: MIT
#pragma once

#include "json.h"

#include <ddprun/logger.h>

namespace ddprun::mlflow {

// Returns who started what, of which commit, and where: MLflow's own tags (`mlflow.user`) and ours (`ddprun.run_dir`).
// Commit and command come from the run folder's environment.json.
Json start_tags(const RunStart& run);

Json end_tags(const RunEnd& end);

}  // namespace ddprun::mlflow
