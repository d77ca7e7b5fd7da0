// SPDX-License-Identifier: MIT
// What each worker has of the experiment, whether it trains or predicts: the link to the others, the data, the model.
#pragma once

#include "comm/communicator.h"
#include "comm/device_backend.h"
#include "config/experiment.h"
#include "imaging/image_batcher.h"
#include "launch/heartbeat.h"
#include "launch/worker_process.h"
#include "metrics/objective.h"
#include "plugin_host/plugin_host.h"
#include "train/data_parallel.h"
#include "train/precision.h"

#include <ddprun/fused_layers.h>

#include <functional>
#include <memory>

namespace ddprun {

// Its parts are made in this order and destroyed in the reverse. Used from one thread.
struct Runtime {
  using OnActivity = std::function<void(Activity)>;
  using LoadBackend = std::function<std::shared_ptr<DeviceBackend>(int64_t local_rank, int64_t gpus)>;

  // Reads the frozen experiment of the run's folder and joins the others. `on_activity` is told where it connects the
  // GPUs, for a launcher that looks for hangs; may be null.
  explicit Runtime(WorkerPlace worker_place, const OnActivity& on_activity = {},
                   const LoadBackend& load = load_cuda_backend);

  // Opens the data and builds the model, equal on all ranks: its weights are drawn from the seed, then changed by
  // `fill`.
  void build(const std::function<void(Model&)>& fill);

  // Of the model and of the batches from here on; before an optimizer or a reducer has seen the weights.
  void set_memory_format(MemoryFormat memory_format);

  std::unique_ptr<Objective> objective(Phase phase) const;

  // What makes the batches of splits whose images lie in memory, where dataset.resident says so: on the GPU where they
  // take no more than a quarter of its free memory. After set_memory_format().
  SplitImages images() const;

  // The ranks' store once more, by a connection of its own: for a thread beside the training's. Null with a world of
  // one.
  c10::intrusive_ptr<c10d::Store> open_store(const std::string& prefix) const;

  // With trainer.strategy dp: the model, and a copy of it on every further GPU of this process; else null. Leaves the
  // random generators as they are.
  std::shared_ptr<DataParallel> data_parallel() const;

  WorkerPlace place;
  Experiment experiment;
  PluginHost plugins;
  std::shared_ptr<DeviceBackend> backend;  // null on the CPU
  c10::Device device;
  Communicator communicator;
  std::shared_ptr<Dataset> dataset;
  std::shared_ptr<Model> model;
  Precision precision;

 private:
  std::shared_ptr<const ImageBatcher> images_of(Split split) const;
  std::shared_ptr<Model> prepared_model() const;  // its weights are drawn from the seed

  FusedLayersScope layers_;  // of this thread, which calls the model
};

}  // namespace ddprun
