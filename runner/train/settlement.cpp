// SPDX-License-Identifier: MIT
#include "train/settlement.h"

#include "base/log.h"

#include <ddprun/error.h>

#include <utility>

namespace ddprun {

Settlement::Settlement(const Context& context, TrainState& state, TrainStep& step, ProgressLog& log,
                       Checkpointer& checkpoints, bool only_measures)
    : context_(context),
      state_(state),
      step_(step),
      log_(log),
      checkpoints_(checkpoints),
      only_measures_(only_measures),
      policy_(context, state) {}

bool Settlement::start() {
  policy_.start();
  return context_.experiment.trainer.on_nonfinite == OnNonfinite::kRollback && !checkpoints_.is_own();
}

void Settlement::open(const TrainBatch& batch, StepOutcome outcome) {
  policy_.open({state_.step + 1, batch.epoch + 1, batch.batch.index, std::move(outcome)});
}

bool Settlement::learn(const Flags& agreed) {
  policy_.learn(agreed);
  return close_steps();
}

bool Settlement::settle() {
  step_.settle_weights();
  log_.count([this] { policy_.settle(); });
  return close_steps();
}

// Closes the steps that all ranks know of.
bool Settlement::close_steps() {
  while (const auto verdict = policy_.next(checkpoints_.step())) {
    if (!act_on(*verdict)) return false;
  }
  return true;
}

bool Settlement::act_on(const NonfinitePolicy::Verdict& verdict) {
  using Action = NonfinitePolicy::Action;
  if (only_measures_ && verdict.action == Action::kStop) return state_.stop_early(verdict.found), false;
  const auto file = event_file(context_.run_dir, verdict.step.step);
  if (verdict.action != Action::kKeep) record(verdict, file);
  switch (verdict.action) {
    case Action::kKeep:
      log_.add(verdict.step.outcome);
      state_.skips_in_row = 0;
      break;
    case Action::kSkip:
      ++state_.skips_in_row;
      ++state_.skipped;
      log_.event("nonfinite", verdict.found + "; the step is skipped");
      if (context_.is_rank_zero()) log::warn(verdict.found + ". The step is skipped; its batch is in " + file.string());
      break;
    case Action::kRollBack: roll_back(verdict);
    case Action::kStop: throw UserError(verdict.error);
  }
  return true;
}

// Without its record the next attempt would not know of a rollback. Otherwise the step's problem matters more.
void Settlement::record(const NonfinitePolicy::Verdict& verdict, const std::filesystem::path& file) try {
  if (context_.is_rank_zero())
    write_event(verdict.event, context_.experiment.trainer.on_nonfinite, checkpoints_.step(), file);
} catch (const std::exception& problem) {
  if (verdict.action == NonfinitePolicy::Action::kRollBack)
    throw UserError(verdict.found + "; training cannot roll back: " + problem.what());
  log::warn(problem.what());
}

// Ends this attempt on all ranks. The launcher starts the next one from the last checkpoint.
void Settlement::roll_back(const NonfinitePolicy::Verdict& verdict) {
  const auto text = log::text("rolling back to step ", checkpoints_.step());
  if (context_.is_rank_zero())
    log::warn(log::text(verdict.found, "; ", text, ", to skip that batch; it is in ",
                        event_file(context_.run_dir, verdict.step.step).string()));
  log_.event("rollback", verdict.found + "; " + text);
  checkpoints_.finish();
  throw RollBack();
}

}  // namespace ddprun
