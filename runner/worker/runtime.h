// SPDX-License-Identifier: MIT
// What each worker needs of the experiment, whether it trains or predicts: the communicator, the data, the model.
#pragma once

#include "comm/communicator.h"
#include "config/experiment.h"
#include "device/device_backend.h"
#include "imaging/image_batcher.h"
#include "launch/heartbeat.h"
#include "launch/worker_process.h"
#include "metrics/objective.h"
#include "plugin_host/plugin_host.h"
#include "step/data_parallel.h"
#include "weights/precision.h"

#include <ddprun/fused_layers.h>

#include <functional>
#include <memory>

namespace ddprun {

// Its parts are created in this order and destroyed in reverse. Used from one thread.
struct Runtime {
  using OnActivity = std::function<void(Activity)>;
  using LoadBackend = std::function<std::shared_ptr<DeviceBackend>(int64_t local_rank, int64_t gpus)>;

  // Reads the frozen experiment of the run's folder and joins the others. `on_activity` is called when it connects the
  // GPUs, for a launcher that watches for hangs; may be null.
  explicit Runtime(WorkerPlace worker_place, const OnActivity& on_activity = {},
                   const LoadBackend& load = load_cuda_backend);

  // Opens the data and builds the model, equal on all ranks: its weights are drawn from the seed, then changed by
  // `fill`.
  void build(const std::function<void(Model&)>& fill);

  // Sets the memory format of the model and of later batches. Call it before an optimizer or a reducer has seen the
  // weights.
  void set_memory_format(MemoryFormat memory_format);

  std::shared_ptr<Objective> objective() const;

  // Returns what makes the batches of splits whose images lie in memory, if dataset.resident asks for it: on the GPU if
  // they take no more than a quarter of its free memory. Call it after set_memory_format().
  SplitImages images() const;

  // Opens a second connection to the ranks' store, for a thread beside the training's. Returns null with a world of
  // one.
  c10::intrusive_ptr<c10d::Store> open_store(const std::string& prefix) const;

  // Returns the model and a copy of it on every further GPU of this process with trainer.strategy dp, else null. Leaves
  // the random generators as they are.
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
  void start_dataset();  // or as the run has noted it, where only new files are to be read
  std::shared_ptr<const ImageBatcher> images_of(Split split) const;
  std::shared_ptr<Model> prepared_model() const;  // its weights are drawn from the seed

  FusedLayersScope layers_;  // of this thread, which calls the model
};

}  // namespace ddprun
