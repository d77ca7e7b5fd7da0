// SPDX-License-Identifier: MIT
#include "train/nonfinite_policy.h"

#include "base/log.h"
#include "comm/replicate.h"
#include "train/gradients.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace ddprun {
namespace {

std::string advice_for(const TrainerConfig& config) {
  std::string advice = ". Lower the learning rate";
  if (config.clip_norm == 0) advice += ", limit the gradients (trainer.clip_norm=1)";
  if (config.precision == PrecisionMode::kFp16) advice += ", take trainer.precision=bf16, which has float32's range";
  return advice;
}

}  // namespace

void NonfinitePolicy::restart() {
  open_.clear();
  handed_in_ = parts_.state.step;
}

bool NonfinitePolicy::skips(int64_t step) const {
  const auto& steps = parts_.state.skipped_steps;
  return std::ranges::find(steps, step) != steps.end();
}

// On a GPU not the last one's, since it still works on that.
void NonfinitePolicy::hand_in(Flags& mine) {
  auto done = open_.size();
  if (parts_.device.is_cuda() && done > 0) --done;
  for (size_t i = 0; i < done; ++i) {
    if (open_[i].step <= handed_in_) continue;
    mine.nonfinite = open_[i].outcome.nonfinite() || mine.nonfinite;
    mine.checked_step = handed_in_ = open_[i].step;
  }
}

// Which of several steps it was that somebody found nonfinite, they tell each other then.
NonfinitePolicy::Verdict NonfinitePolicy::close_agreed(const Flags& agreed) {
  const auto is_agreed = [&agreed](const OpenStep& step) { return step.step <= agreed.checked_step; };
  const auto count = static_cast<size_t>(std::ranges::count_if(open_, is_agreed));
  if (agreed.nonfinite && count > 1) return settle(count);
  for (size_t i = 0; i < count; ++i) {
    if (auto verdict = close(agreed.nonfinite)) return verdict;
  }
  return {};
}

// The first `count` that are open.
NonfinitePolicy::Verdict NonfinitePolicy::settle(size_t count) {
  if (count == 0) return {};
  auto raised = at::zeros({static_cast<int64_t>(count)}, at::kInt);
  auto* flags = raised.data_ptr<int>();
  for (size_t i = 0; i < count; ++i) flags[i] = open_[i].outcome.nonfinite() ? 1 : 0;
  parts_.communicator.sum(raised);
  const auto* sums = raised.const_data_ptr<int>();
  for (auto left = count; left > 0; --left) {
    if (auto verdict = close(*sums++ > 0)) return verdict;
  }
  return {};
}

NonfinitePolicy::Verdict NonfinitePolicy::close(bool nonfinite) {
  const auto step = std::move(open_.front());
  open_.pop_front();
  if (nonfinite) return judge(step);
  parts_.log.add(step.outcome);
  parts_.state.skips_in_row = 0;
  return {};
}

NonfinitePolicy::Verdict NonfinitePolicy::judge(const OpenStep& step) {
  const auto event = gather_event(step, parts_.communicator);
  const auto& config = parts_.config;
  const auto file = event_file(parts_.run_dir, event.step);
  const bool is_rank_zero = parts_.communicator.world().rank == 0;
  try {
    if (is_rank_zero) write_event(event, config.on_nonfinite, file);
  } catch (const std::exception& error) {  // what is wrong with the step is worth more than this
    log::warn(error.what());
  }
  const auto found = event.text();
  const auto advice =
      advice_for(config) + " or look at the data: the numbers of the batch's samples are in " + file.string();
  if (config.on_nonfinite == OnNonfinite::kRollback)
    return Rollback{.step = event.step, .found = found, .advice = advice};
  if (config.on_nonfinite == OnNonfinite::kStop) {
    throw UserError(
        found + advice +
        ". trainer.on_nonfinite=skip skips such steps, rollback goes back to the last checkpoint and past the "
        "batch. The checkpoints are from before.");
  }
  if (++parts_.state.skips_in_row > TrainerConfig::kMostSkips) {
    throw UserError(log::text(found, ". That is more than ", TrainerConfig::kMostSkips,
                              " steps in a row, too many to skip", advice, ". The checkpoints are from before."));
  }
  ++parts_.state.skipped;
  parts_.log.event("nonfinite", found + "; the step is skipped");
  if (is_rank_zero) log::warn(found + ". The step is skipped; its batch is in " + file.string());
  return {};
}

void NonfinitePolicy::count_rollback(const Rollback& rollback, int64_t from) {
  if (rollbacks_.to != from) rollbacks_ = {.to = from};
  if (++rollbacks_.count > TrainerConfig::kMostRollbacks) {
    throw UserError(log::text(rollback.found, ". From step ", from, " training has gone back ",
                              TrainerConfig::kMostRollbacks, " times already", rollback.advice, "."));
  }
}

void NonfinitePolicy::check_weights(const Model& model) const {
  std::vector<at::Tensor> weights;
  for (const auto& parameter : trainable_parameters(model)) weights.push_back(parameter.value.detach());
  if (std::isfinite(total_norm(norms_of(weights)).item<double>())) return;
  throw UserError(log::text("the weights are not finite after step ", parts_.state.step, advice_for(parts_.config),
                            ". The checkpoints are from before."));
}

}  // namespace ddprun
