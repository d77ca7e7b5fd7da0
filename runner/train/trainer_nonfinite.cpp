// SPDX-License-Identifier: MIT
// Trainer's part that meets a loss or gradients that are NaN or infinite, as trainer.on_nonfinite says.
//
// A step stays open until all ranks know whether it was nonfinite: its flag goes with Agreement's exchange, and before
// anything that would keep or show what it did (a row, an evaluation, a checkpoint) all open ones are settled. Its
// metrics come into the window's sums only then.
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "comm/replicate.h"
#include "train/checkpoint_exchange.h"
#include "train/gradient_clip.h"
#include "train/trainer.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace ddprun {
namespace {

std::string advice(const TrainerConfig& config) {
  std::string advice = ". Lower the learning rate";
  if (config.clip_norm == 0) advice += ", limit the gradients (trainer.clip_norm=1)";
  if (config.precision == "fp16") advice += ", take trainer.precision=bf16, which has float32's range";
  return advice;
}

}  // namespace

bool Trainer::is_left_out(int64_t step) const {
  return std::ranges::find(state_.left_out, step) != state_.left_out.end();
}

void Trainer::pass_over() {
  step_.leave_out();
  ++state_.skipped;
}

// The flags of the steps that the device is done with: on a GPU not the last one's, since it still works on that.
void Trainer::hand_in(Flags& mine) {
  auto done = open_.size();
  if (parts_.device.is_cuda() && done > 0) --done;
  for (size_t i = 0; i < done; ++i) {
    if (open_[i].step <= handed_in_) continue;
    mine.nonfinite = open_[i].outcome.nonfinite() || mine.nonfinite;
    mine.checked_step = handed_in_ = open_[i].step;
  }
}

// Which of several steps it was that somebody found nonfinite, they tell each other then.
bool Trainer::close_agreed(const Flags& agreed) {
  const auto is_agreed = [&agreed](const OpenStep& step) { return step.step <= agreed.checked_step; };
  const auto count = static_cast<size_t>(std::ranges::count_if(open_, is_agreed));
  if (agreed.nonfinite && count > 1) return settle_steps(count);
  for (size_t i = 0; i < count; ++i) {
    if (!close_step(agreed.nonfinite)) return false;
  }
  return true;
}

// The first `count` that are open.
bool Trainer::settle_steps(size_t count) {
  if (count == 0) return true;
  auto raised = at::zeros({static_cast<int64_t>(count)}, at::kInt);
  auto* flags = raised.data_ptr<int>();
  for (size_t i = 0; i < count; ++i) flags[i] = open_[i].outcome.nonfinite() ? 1 : 0;
  parts_.communicator.sum(raised);
  const auto* sums = raised.const_data_ptr<int>();
  for (auto left = count; left > 0; --left) {
    if (!close_step(*sums++ > 0)) return false;
  }
  return true;
}

bool Trainer::close_step(bool nonfinite) {
  const auto step = std::move(open_.front());
  open_.pop_front();
  if (nonfinite) return meet_nonfinite(step);
  window_.add(step.outcome.sums);
  state_.skips_in_row = 0;
  return true;
}

bool Trainer::meet_nonfinite(const OpenStep& step) {
  const auto event = gather_event(step, parts_.communicator);
  const auto& config = experiment_.trainer;
  const auto file = event_file(parts_.run_dir, event.step);
  const bool leads = parts_.communicator.world().rank == 0;
  try {
    if (leads) write_event(event, config.on_nonfinite, file);
  } catch (const std::exception& error) {  // what is wrong with the step is worth more than this
    log::warn(error.what());
  }
  const auto found = event.text();
  const auto where = " or look at the data: the numbers of the batch's samples are in " + file.string();
  if (config.on_nonfinite == "rollback") {
    roll_back(event.step, found, advice(config) + where);
    return false;
  }
  if (config.on_nonfinite == "stop") {
    throw UserError(found + advice(config) + where +
                    ". trainer.on_nonfinite=skip leaves such steps out, rollback goes back to the last checkpoint and "
                    "past the batch. The checkpoints are from before.");
  }
  if (++state_.skips_in_row > TrainerConfig::kMostSkips) {
    throw UserError(log::text(found, ". That is more than ", TrainerConfig::kMostSkips,
                              " steps in a row, too many to skip", advice(config), where,
                              ". The checkpoints are from before."));
  }
  ++state_.skipped;
  tell("nonfinite", found + "; the step is skipped");
  if (leads) log::warn(found + ". The step is skipped; its batch is in " + file.string());
  return true;
}

// All ranks together, as if this attempt began anew: nothing of what came after the checkpoint is left but the rows in
// the logs, which are written again.
void Trainer::roll_back(int64_t step, const std::string& found, const std::string& advice) {
  if (rollbacks_.to != saved_step_) rollbacks_ = {.to = saved_step_};
  if (++rollbacks_.count > TrainerConfig::kMostRollbacks) {
    throw UserError(log::text(found, ". From step ", saved_step_, " training has gone back ",
                              TrainerConfig::kMostRollbacks, " times already", advice, "."));
  }
  finish_saving();
  const auto path = last_good_checkpoint();
  auto left_out = state_.left_out;
  left_out.push_back(step);
  agreement_.settle();  // its flags are of steps that are no more
  restore(read_on_all(path, parts_.communicator), path);
  state_.left_out = std::move(left_out);
  rollbacks_.to = state_.step;
  if (parts_.communicator.world().rank == 0) {
    log::warn(log::text(found, ". Back to step ", state_.step, ", and past that batch; it is in ",
                        event_file(parts_.run_dir, step).string()));
  }
  tell("rollback", log::text(found, "; back to step ", state_.step));
  start_from_here();
}

// Rank 0 looks, all get the same answer.
std::string Trainer::last_good_checkpoint() {
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

// With rollback, the run has a checkpoint of its own from the first step on.
void Trainer::save_a_way_back() {
  if (experiment_.trainer.on_nonfinite != "rollback") return;
  const bool own = std::filesystem::path(saved_path_).parent_path() == checkpoints_folder(parts_.run_dir);
  if (own) return;
  saved_step_ = -1;
  save(false);
}

// Gradients may be finite and the step too long all the same (a learning rate without bounds): weights that are no
// numbers must not take the place of good ones.
void Trainer::check_weights() const {
  std::vector<at::Tensor> weights;
  for (const auto& parameter : trainable_parameters(*parts_.model)) weights.push_back(parameter.value.detach());
  if (std::isfinite(total_norm(norms_of(weights)).item<double>())) return;
  throw UserError(log::text("the weights are not finite after step ", state_.step, advice(experiment_.trainer),
                            ". The checkpoints are from before."));
}

}  // namespace ddprun
