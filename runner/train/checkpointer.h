// SPDX-License-Identifier: MIT
// Saves a training's state to checkpoints in the background, and restores it. Used from the training thread; every rank
// makes the same calls in the same order.
#pragma once

#include "base/clock.h"
#include "checkpoint/checkpoint.h"
#include "step/context.h"
#include "step/train_step.h"
#include "train/feature.h"
#include "train/train_state.h"
#include "weights/base_weights.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

class Checkpointer {
 public:
  // All arguments but `alive` outlive it, which is called before and while it waits for a save: a slow disk is not a
  // hang. Collective.
  Checkpointer(const Context& context, TrainStep& step, const Features& features, std::function<void()> alive);

  // Starts writing the state. The checkpoint counts once the rows that it stands for are on the disk. Waits for the
  // previous save and, with checkpoint.async off, for this one.
  void save(const TrainState& state, bool best);

  // Waits for the save under way. An error on one rank, such as a full disk, is thrown on all.
  void finish();
  // Does the same before this rank ends with an error: the others are still there, and write the checkpoint with it.
  void rescue() noexcept;
  bool failed() const { return context_.saver.failed(); }

  // Restores weights, optimizer, averages, what features keep as tensors, and random generators; the rest of the state
  // is the caller's. `path` is for errors.
  void restore(const Checkpoint& checkpoint, const TrainState& state, const std::string& path);

  // Calls `use` while the model has the weights to predict with of this run's checkpoint of that name, and restores the
  // model's own. Warns, and does not call it, if that checkpoint is missing or broken. Collective.
  void with_weights_of(const std::string& name, const std::function<void()>& use);

  int64_t step() const { return saved_step_; }             // of the last one saved or restored; -1: none
  const std::string& path() const { return saved_path_; }  // empty: none
  bool is_own() const;                                     // whether it is this run's
  BaseWeights& base() { return base_; }                    // what checkpoints leave out; rank 0's
  const BaseWeights& base() const { return base_; }

  bool is_due_by_clock() const;         // of this rank
  void ask() { is_asked_for_ = true; }  // for one at the end of this step, on all ranks
  void answer() { is_asked_for_ = false; }
  bool is_asked_for() const { return is_asked_for_; }

 private:
  Checkpoint live(const TrainState& state) const;
  void share(Checkpoint& checkpoint) const;
  TensorDict whole(const CheckpointInfo& info) const;

  const Context& context_;
  TrainStep& step_;
  const Features& features_;
  BaseWeights base_;
  std::function<void()> alive_;
  bool writes_ = true, all_write_ = true;  // to the run's folder; all ranks that share the optimizer
  bool is_asked_for_ = false;
  int64_t saved_step_ = -1;
  std::string saved_path_;
  Snapshot snapshot_;
  Stopwatch since_save_;
};

}  // namespace ddprun
