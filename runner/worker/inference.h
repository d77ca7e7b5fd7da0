// SPDX-License-Identifier: MIT
// A worker that uses a trained model: measures it on the validation and test splits, or writes its predictions of one
// split.
#pragma once

#include "launch/worker_process.h"
#include "worker/worker_task.h"

#include <memory>

namespace ddprun {

inline constexpr auto kInferenceResult = "result.json";  // what rank 0 leaves in the run's folder: one JSON object

// As WorkerPlace::task says. Rank 0 writes the predictions to WorkerPlace::out, replacing a file of that name.
std::unique_ptr<WorkerTask> make_inference(const WorkerPlace& place);

}  // namespace ddprun
