// SPDX-License-Identifier: MIT
// The programs that loggers have run beside a run: Sidecar of <ddprun/logger.h>.
#pragma once

#include "metrics/run_summary.h"

#include <ddprun/logger.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

struct PlacedSidecar {
  Sidecar sidecar;
  std::string place;  // of its logger in the experiment: "mnist.yaml:7:12: loggers[1]: plugin wandb"
};

// Asks each whether it can do its work. Throws UserError with what they lack, one a line.
void require_sidecars(const std::vector<PlacedSidecar>& sidecars);

// Starts them, passes on what they report, and starts them again if they are killed.
class Sidecars {
 public:
  Sidecars();
  ~Sidecars();  // ends those that still run: what they have not sent stays in the run's folder
  Sidecars(const Sidecars&) = delete;
  Sidecars& operator=(const Sidecars&) = delete;

  // Starts them for a run whose folder is there; does nothing the second time.
  void start(const std::vector<PlacedSidecar>& sidecars, const std::filesystem::path& run_dir);

  // Says to them that the run has ended, and waits for them. Returns those that have not sent everything by then.
  std::vector<Unsent> finish(std::chrono::seconds patience);

  std::string names() const;  // "wandb, mlflow"; empty if there are none

 private:
  struct Watch;
  struct Running;
  std::vector<std::unique_ptr<Running>> running_;
};

}  // namespace ddprun
