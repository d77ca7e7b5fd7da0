// SPDX-License-Identifier: MIT
// What the parts of one worker's training share. The worker makes it, equal in kind on all ranks.
#pragma once

#include "base/clock.h"
#include "checkpoint/background_saver.h"
#include "comm/communicator.h"
#include "config/experiment.h"
#include "device/device_backend.h"
#include "imaging/image_batcher.h"
#include "launch/heartbeat.h"
#include "metrics/logger_hub.h"
#include "step/data_parallel.h"
#include "weights/base_weights.h"
#include "weights/precision.h"

#include <ddprun/dataset.h>
#include <ddprun/model.h>
#include <ddprun/optimizer.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

namespace ddprun {

class PluginHost;

// All that it refers to outlives the training.
struct Context {
  const Experiment& experiment;
  Communicator& communicator;
  std::shared_ptr<Model> model;  // prepared, on its device, in its precision
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<Optimizer> optimizer;  // started
  const Objective& objective;
  const Objective& evaluation_objective;
  LoggerHub& loggers;
  BackgroundSaver& saver;
  std::filesystem::path run_dir;  // of the run whose checkpoints these are
  bool writes_to_run_dir = true;  // sees that of rank 0 at this path, and may write there
  Precision precision;
  std::shared_ptr<DeviceBackend> backend = {};  // null on the CPU
  c10::Device device = c10::kCPU;
  std::shared_ptr<DataParallel> parallel = {};  // the model's copies with trainer.strategy dp; else null
  SplitImages images = {};                      // makes the batches if the images lie in memory
  std::function<void(Activity, int64_t step)> on_activity = {};  // called for each activity; may be null
  const PluginHost* plugins = nullptr;                           // makes what features name; null: they name none
  // Of the weights that the run begins with; rank 0 has them if checkpoints leave weights out. Empty: not known.
  WeightDigests first_weights = {};
  double command_started_at = steady_seconds();
  // For tests: with trainer.shard_optimizer, the weights that another rank has stepped are NaN until they have come.
  bool poisons_old_weights = false;

  void enter(Activity activity, int64_t step) const {
    if (on_activity) on_activity(activity, step);
  }
  bool is_rank_zero() const { return communicator.world().rank == 0; }
  std::vector<std::shared_ptr<Model>> models() const { return parallel ? parallel->models() : std::vector{model}; }
  int64_t devices() const { return parallel ? parallel->devices() : 1; }  // of this rank
};

}  // namespace ddprun
