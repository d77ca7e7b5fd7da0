// SPDX-License-Identifier: MIT
// A worker that uses a trained model: measures it on the validation and test splits, or writes its predictions of one
// split.
//
// The launcher says so by environment variables: DDPRUN_TASK (evaluate or predict), DDPRUN_CHECKPOINT (a verified one),
// and to predict DDPRUN_SPLIT and DDPRUN_OUT (the CSV file that rank 0 writes, replacing one of that name).
#pragma once

#include "launch/worker_process.h"
#include "worker/worker_task.h"

#include <memory>

namespace ddprun {

inline constexpr auto kInferenceResult = "result.json";  // what rank 0 leaves in the run's folder: one JSON object

bool inference_is_asked();  // by the launcher; else the worker is to train
std::unique_ptr<WorkerTask> make_inference(const WorkerPlace& place);

}  // namespace ddprun
