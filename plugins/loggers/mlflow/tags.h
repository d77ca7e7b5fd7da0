// SPDX-License-Identifier: MIT
#pragma once

#include "json.h"

#include <ddprun/logger.h>

namespace ddprun::mlflow {

// Who started what, of which commit, where: MLflow's own tags (`mlflow.user`) and ours (`ddprun.run_dir`). The commit
// and the command are those of the run folder's environment.json.
Json start_tags(const RunStart& run);

Json end_tags(const RunEnd& end);

}  // namespace ddprun::mlflow
