// SPDX-License-Identifier: MIT
// What a worker process is there for: to train, to evaluate, to predict. Made and run once, on the process's main
// thread.
#pragma once

namespace ddprun {

class WorkerTask {
 public:
  virtual ~WorkerTask() = default;

  virtual int run() = 0;  // the process's exit code

  // For failure reports: "starting", "training", "evaluating" ..., and the optimizer steps done, -1 before the first.
  virtual const char* phase() const = 0;
  virtual long step() const { return -1; }
};

}  // namespace ddprun
