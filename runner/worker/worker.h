// SPDX-License-Identifier: MIT
// One worker process: it joins the others, builds the experiment from the run folder's frozen config and trains; or, if
// the launcher asked for it, evaluates or predicts.
#pragma once

#include "launch/worker_process.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

// Runs the worker and returns the process's exit code. Takes its place from the file that the launcher writes
// (launch/worker_process.h); writes a failure for the launcher's report and to standard error.
int run_worker();

// The task of a worker process: to train, to evaluate, to predict. Created and run once, on the process's main thread.
class WorkerTask {
 public:
  virtual ~WorkerTask() = default;

  virtual int run() = 0;  // returns the process's exit code

  // Returns "starting", "training", "evaluating" ..., and the optimizer steps done, -1 before the first, for failure
  // reports.
  virtual const char* phase() const = 0;
  virtual long step() const { return -1; }
};

using StopRequested = std::function<bool()>;  // returns whether this rank is asked to save and end

std::unique_ptr<WorkerTask> make_train_task(const WorkerPlace& place, StopRequested stop_requested);

// Measures a trained model on the validation and test splits, or writes its predictions of one split, as
// WorkerPlace::task says. Rank 0 writes the predictions to WorkerPlace::out, replacing a file of that name.
std::unique_ptr<WorkerTask> make_inference(const WorkerPlace& place);

// Writes and reads the list of new files to predict, WorkerPlace::inputs: a name may contain any byte but 0.
void write_inputs(const std::filesystem::path& list, const std::vector<std::string>& files);
std::vector<std::filesystem::path> read_inputs(const std::filesystem::path& list);

inline constexpr auto kInferenceResult = "result.json";  // what rank 0 leaves in the run's folder: one JSON object

}  // namespace ddprun
