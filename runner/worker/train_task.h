// SPDX-License-Identifier: MIT
// A worker's part of a training.
#pragma once

#include "launch/worker_process.h"
#include "worker/worker_task.h"

#include <functional>
#include <memory>

namespace ddprun {

using StopRequested = std::function<bool()>;  // whether this rank is asked to save and to end

std::unique_ptr<WorkerTask> make_train_task(const WorkerPlace& place, StopRequested stop_requested);

}  // namespace ddprun
