// SPDX-License-Identifier: MIT
// Trainer's part that goes to disk and comes back.
#include "base/log.h"
#include "comm/replicate.h"
#include "plugin_host/plugin_call.h"
#include "train/checkpoint_exchange.h"
#include "train/model_weights.h"
#include "train/rng_state.h"
#include "train/trainer.h"

#include <ddprun/error.h>

namespace ddprun {

void Trainer::save(bool best) {
  if (saved_step_ == state_.step && !best) return;
  phase_ = "saving";
  moved(Activity::kSaving);
  if (!settle_steps()) return;
  check_weights();
  state_.window = window_.totals(parts_.communicator);
  state_.unapplied = step_.unapplied();
  state_.clock = run_clock_.state();
  state_.memory_format = memory_format_name(parts_.precision.memory_format());
  if (auto* scaler = step_.scaler()) state_.scaler = scaler->state();
  const auto rows_written = parts_.loggers.start_flush();
  finish_saving();  // of the checkpoint before: there is one copy in memory
  const auto live = checkpoint();
  const bool async = experiment_.checkpoint.async;
  parts_.checkpoints.start(async ? snapshot_.take(live) : live, best, rows_written);
  if (!async) finish_saving();
  saved_step_ = state_.step;
  saved_path_ = (checkpoints_folder(parts_.run_dir) / checkpoint_name(state_.step)).string();
  since_save_.restart();
  tell("checkpoint", checkpoint_name(state_.step) + (best ? ", the best so far" : ""));
}

// Waits for the save under way. What it throws, a full disk on one rank, all ranks throw.
void Trainer::finish_saving() {
  phase_ = "saving";
  parts_.checkpoints.wait([this] { moved(Activity::kSaving); });
  for (const auto& warning : parts_.checkpoints.take_warnings()) log::warn(warning);
}

// Before this rank ends by an error: the others are still there, and write the checkpoint under way with it.
void Trainer::rescue_save() noexcept try {
  parts_.checkpoints.wait([this] { moved(Activity::kSaving); });
} catch (const std::exception& error) {
  log::warn(error.what());
}

// On rank 0, with what the others have told it; on those no more than its step.
Checkpoint Trainer::checkpoint() const {
  auto own = rng_state(parts_.backend.get());
  own["window"] = window_.numbers();
  Checkpoint checkpoint{.step = state_.step, .ranks = gather_tensors(own, parts_.communicator)};
  if (parts_.communicator.world().rank != 0) return checkpoint;
  for (const auto& tensor : state_tensors(*parts_.model)) checkpoint.model[tensor.name] = tensor.value.detach();
  if (const auto* average = step_.average()) checkpoint.average = average->state();
  checkpoint.optimizer = in_plugin({"optimizer", "state"}, [&] { return parts_.optimizer->state(); });
  checkpoint.progress = state_.to_json();
  return checkpoint;
}

void Trainer::restore(const Checkpoint& checkpoint, const std::string& path) {
  state_ = TrainState::from_json(checkpoint.progress, path);
  check_same_run(path);
  run_clock_.set_state(state_.clock);
  stopper_.set_state(state_.stopper);
  step_.schedule().set_state(state_.schedule);
  step_.set_scaler_state(state_.scaler);
  step_.set_unapplied(state_.unapplied);
  if (auto* average = step_.average()) average->load_state(checkpoint.average);
  const auto rank = static_cast<size_t>(parts_.communicator.world().rank);
  const auto own = rank < checkpoint.ranks.size() ? checkpoint.ranks[rank] : TensorDict();
  restore_window(own);
  saved_step_ = state_.step;
  saved_path_ = path;
  const auto time = experiment_.trainer.max_seconds;
  const bool time_over = time > 0 && state_.train_seconds >= time;
  const bool more_to_do = state_.finished == "completed" && state_.step < max_steps_ && !time_over;
  const bool stops_no_more = state_.finished == "stopped_early" && !experiment_.early_stopping;
  if (more_to_do || stops_no_more) state_.finished.clear();
  if (rank == 0) load_weights(*parts_.model, checkpoint.model, path);
  broadcast_state(*parts_.model, parts_.communicator);
  in_plugin({"optimizer", "load_state"}, [&] { parts_.optimizer->load_state(checkpoint.optimizer); });
  set_rng_state(own, parts_.backend.get());
}

// Each rank goes on with its own sums, as if it had never stopped; at another world size rank 0 goes on with
// everybody's.
void Trainer::restore_window(const TensorDict& rank) {
  const auto& world = parts_.communicator.world();
  if (state_.world_size == world.size) {
    window_.reset(state_.window, rank.at("window"));
  } else if (world.rank == 0) {
    window_.reset(state_.window, numbers_of(state_.window));
  }
  const int64_t devices = parts_.parallel ? parts_.parallel->devices() : 1;
  const bool same_parts = state_.world_size == world.size && state_.devices == devices;
  if (!same_parts) state_.micro_batch = 0;  // what fits into memory is another number now
  state_.world_size = world.size;
  state_.devices = devices;
}

void Trainer::check_same_run(const std::string& path) const {
  const auto& config = experiment_.trainer;
  const auto refuse = [&](const char* what, auto saved, auto now) {
    throw UserError(log::text(what, " is ", now, ", but ", path, " was saved with ", saved,
                              ": a resumed run sees the same samples in the same order only with the same value"));
  };
  if (state_.global_batch != config.global_batch)
    refuse("trainer.global_batch", state_.global_batch, config.global_batch);
  if (state_.seed != experiment_.seed) refuse("seed", state_.seed, experiment_.seed);
  const int64_t samples = parts_.dataset->size(Split::kTrain);
  if (state_.train_samples != samples) refuse("the size of the training set", state_.train_samples, samples);
}

}  // namespace ddprun
