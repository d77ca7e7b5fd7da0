// SPDX-License-Identifier: MIT
// One worker process: joins the others, puts the experiment together from the run folder's frozen config, trains; or,
// where the launcher asked for it (worker/worker_task.h), evaluates or predicts.
#pragma once

namespace ddprun {

// The process's exit code. Takes its place from the environment that the launcher sets (launch/worker_process.h); a
// failure is written for the launcher's report, and to standard error.
int run_worker();

}  // namespace ddprun
