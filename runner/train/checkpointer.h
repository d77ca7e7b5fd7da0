// SPDX-License-Identifier: MIT
// Puts a training's state into checkpoints while it goes on, and a checkpoint's back into the training. Used from the
// training thread; every rank calls the same in the same order.
#pragma once

#include "base/clock.h"
#include "checkpoint/background_saver.h"
#include "checkpoint/checkpoint.h"
#include "comm/communicator.h"
#include "comm/device_backend.h"
#include "config/experiment.h"
#include "metrics/logger_hub.h"
#include "train/train_state.h"
#include "train/train_step.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class Checkpointer {
 public:
  // All outlive it.
  struct Parts {
    const CheckpointConfig& config;
    std::filesystem::path run_dir;  // whose checkpoints these are
    Communicator& communicator;
    std::shared_ptr<Model> model;
    std::shared_ptr<Optimizer> optimizer;
    TrainStep& step;
    DeviceBackend* backend;  // null on the CPU
    LoggerHub& loggers;
    BackgroundSaver& saver;
    std::function<void()> alive;  // called while a save is waited for: a slow disk is not a hang
  };

  explicit Checkpointer(Parts parts) : parts_(std::move(parts)) {}

  // Begins to write the state, with this rank's window of metrics. It counts once the rows that it stands for are on
  // the disk. Waits for the save before it, and with checkpoint.async off for this one.
  void save(const TrainState& state, const at::Tensor& window, bool best);

  // Waits for the save under way. What it throws, a full disk on one rank, all ranks throw.
  void finish();
  // The same before this rank ends by an error: the others are still there, and write the checkpoint with it.
  void rescue() noexcept;
  bool failed() const { return parts_.saver.failed(); }

  // Weights, optimizer, averages and random generators as they were; the rest of the state is the caller's. `path` is
  // for errors. Returns what this rank has kept of its own.
  TensorDict restore(const Checkpoint& checkpoint, const TrainState& state, const std::string& path);

  // Rank 0 looks, all get the same answer: the newest one that is whole. Throws UserError where there is none.
  std::string last_good() const;

  int64_t step() const { return saved_step_; }             // of the last one, made or restored; -1: none
  const std::string& path() const { return saved_path_; }  // empty: none
  bool is_own() const;                                     // whether that one is this run's
  double seconds_since() const { return since_save_.seconds(); }

 private:
  Checkpoint live(const TrainState& state, const at::Tensor& window) const;

  Parts parts_;
  int64_t saved_step_ = -1;
  std::string saved_path_;
  Snapshot snapshot_;
  Stopwatch since_save_;
};

// Checkpoints between the ranks: rank 0 alone reads and writes them, so that nobody else need see the run's folder.

// Every rank's tensors, by rank, on rank 0; nothing on the others. For small ones: each goes around as many times as
// there are ranks. Collective.
std::vector<TensorDict> gather_tensors(const TensorDict& mine, Communicator& communicator);

// What rank 0 reads of a checkpoint that was verified, on every rank; but the model on rank 0 alone, which gives it to
// the others by broadcast_state(). A rank holds what it gets once, and 256 MiB meanwhile. Collective. Throws UserError
// where rank 0 cannot read it.
Checkpoint read_on_all(const std::string& path, Communicator& communicator);

}  // namespace ddprun
