// SPDX-License-Identifier: MIT
// What each worker has of the experiment, whether it trains or predicts: the link to the others, the data, the model.
#pragma once

#include "config/experiment.h"
#include "dist/communicator.h"
#include "dist/device_backend.h"
#include "launch/worker_process.h"
#include "plugin_host/plugin_host.h"
#include "train/objective.h"
#include "train/precision.h"

#include <functional>
#include <memory>

namespace ddprun {

// Its parts are made in this order and destroyed in the reverse. Used from one thread.
struct Replica {
  // Reads the frozen experiment of the run's folder and joins the others.
  explicit Replica(WorkerPlace worker_place);

  // Opens the data and builds the model, equal on all ranks: its weights are drawn from the seed, then changed by `fill`.
  void build(const std::function<void(Model&)>& fill);

  std::unique_ptr<Objective> objective(Phase phase) const;

  WorkerPlace place;
  Experiment experiment;
  PluginHost plugins;
  std::shared_ptr<DeviceBackend> backend;  // null on the CPU
  c10::Device device;
  Communicator communicator;
  std::shared_ptr<Dataset> dataset;
  std::shared_ptr<Model> model;
  Precision precision;
};

}  // namespace ddprun
