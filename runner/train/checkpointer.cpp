// SPDX-License-Identifier: MIT
#include "train/checkpointer.h"

#include "base/log.h"
#include "comm/replicate.h"
#include "plugin_host/plugin_call.h"
#include "train/checkpoint_exchange.h"
#include "train/model_weights.h"
#include "train/rng_state.h"

#include <ddprun/error.h>

namespace ddprun {

void Checkpointer::save(const TrainState& state, const at::Tensor& window, bool best) {
  const auto rows_written = parts_.loggers.start_flush();
  finish();  // the save before: there is one copy in memory
  const auto now = live(state, window);
  parts_.saver.start(parts_.config.async ? snapshot_.take(now) : now, best, rows_written);
  if (!parts_.config.async) finish();
  saved_step_ = state.step;
  saved_path_ = (checkpoints_folder(parts_.run_dir) / checkpoint_name(state.step)).string();
  since_save_.restart();
}

void Checkpointer::finish() {
  parts_.saver.wait(parts_.alive);
  for (const auto& warning : parts_.saver.take_warnings()) log::warn(warning);
}

void Checkpointer::rescue() noexcept try { parts_.saver.wait(parts_.alive); } catch (const std::exception& error) {
  log::warn(error.what());
}

// On rank 0, with what the others have told it; on those no more than its step.
Checkpoint Checkpointer::live(const TrainState& state, const at::Tensor& window) const {
  auto own = rng_state(parts_.backend);
  own["window"] = window;
  Checkpoint checkpoint{.step = state.step, .ranks = gather_tensors(own, parts_.communicator)};
  if (parts_.communicator.world().rank != 0) return checkpoint;
  for (const auto& tensor : state_tensors(*parts_.model)) checkpoint.model[tensor.name] = tensor.value.detach();
  checkpoint.average = parts_.step.ema().state();
  checkpoint.optimizer = in_plugin({"optimizer", "state"}, [&] { return parts_.optimizer->state(); });
  checkpoint.progress = state.to_json();
  return checkpoint;
}

TensorDict Checkpointer::restore(const Checkpoint& checkpoint, const TrainState& state, const std::string& path) {
  const auto rank = static_cast<size_t>(parts_.communicator.world().rank);
  auto own = rank < checkpoint.ranks.size() ? checkpoint.ranks[rank] : TensorDict();
  parts_.step.ema().load_state(checkpoint.average);
  if (rank == 0) load_weights(*parts_.model, checkpoint.model, path);
  broadcast_state(*parts_.model, parts_.communicator);
  in_plugin({"optimizer", "load_state"}, [&] { parts_.optimizer->load_state(checkpoint.optimizer); });
  set_rng_state(own, parts_.backend);
  saved_step_ = state.step;
  saved_path_ = path;
  return own;
}

std::string Checkpointer::last_good() const {
  std::string found;
  if (parts_.communicator.world().rank == 0) {
    std::vector<CheckpointFlaw> flaws;
    const auto newest = newest_checkpoint(parts_.run_dir, flaws, saved_step_);
    for (const auto& flaw : flaws) log::warn("passed over a broken checkpoint: " + flaw.problem);
    if (newest) found = newest->path.string();
  }
  found = parts_.communicator.broadcast_text(found);
  if (found.empty()) throw UserError("trainer.on_nonfinite: there is no good checkpoint to go back to");
  return found;
}

bool Checkpointer::is_own() const {
  return std::filesystem::path(saved_path_).parent_path() == checkpoints_folder(parts_.run_dir);
}

}  // namespace ddprun
