// SPDX-License-Identifier: MIT
// One worker process: joins the others, puts the experiment together from the run folder's frozen config, trains; or,
// where the launcher asked for it, evaluates or predicts.
#pragma once

#include "launch/worker_process.h"

#include <functional>
#include <memory>

namespace ddprun {

// The process's exit code. Takes its place from the environment that the launcher sets (launch/worker_process.h); a
// failure is written for the launcher's report, and to standard error.
int run_worker();

// What a worker process is there for: to train, to evaluate, to predict. Made and run once, on the process's main
// thread.
class WorkerTask {
 public:
  virtual ~WorkerTask() = default;

  virtual int run() = 0;  // the process's exit code

  // For failure reports: "starting", "training", "evaluating" ..., and the optimizer steps done, -1 before the first.
  virtual const char* phase() const = 0;
  virtual long step() const { return -1; }
};

using StopRequested = std::function<bool()>;  // whether this rank is asked to save and to end

std::unique_ptr<WorkerTask> make_train_task(const WorkerPlace& place, StopRequested stop_requested);

// Measures a trained model on the validation and test splits, or writes its predictions of one split, as
// WorkerPlace::task says. Rank 0 writes the predictions to WorkerPlace::out, replacing a file of that name.
std::unique_ptr<WorkerTask> make_inference(const WorkerPlace& place);

inline constexpr auto kInferenceResult = "result.json";  // what rank 0 leaves in the run's folder: one JSON object

}  // namespace ddprun
