// SPDX-License-Identifier: MIT
// Settles steps: once all ranks know whether one was nonfinite, its metrics count, or it is skipped, or training rolls
// back or ends, as NonfinitePolicy decides. Used from the training thread, by all ranks alike.
#pragma once

#include "train/checkpointer.h"
#include "train/nonfinite_policy.h"
#include "train/progress_log.h"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

// Ends an attempt on all ranks together: the next one starts from the last checkpoint, and skips the batch of a step.
struct RollBack {};

class Settlement {
 public:
  // All references outlive it. A run that only measures ends well with a step that is nonfinite.
  Settlement(const Context& context, TrainState& state, TrainStep& step, ProgressLog& log, Checkpointer& checkpoints,
             bool only_measures);

  // Begins an attempt. Returns whether the run needs a checkpoint of its own, to roll back to. Collective.
  bool start();
  bool skips(int64_t step) const { return policy_.skips(step); }
  void open(const TrainBatch& batch, StepOutcome outcome);
  void hand_in(Flags& mine) { policy_.hand_in(mine); }

  // Settle the steps that an exchange of flags covers, or weights and all steps, before anybody reads them. Return
  // whether training continues. Throw UserError, or RollBack. Collective.
  bool learn(const Flags& agreed);
  bool settle();

  std::optional<std::string> problem_of_weights() const { return policy_.problem_of_weights(); }

 private:
  bool close_steps();
  bool act_on(const NonfinitePolicy::Verdict& verdict);
  void record(const NonfinitePolicy::Verdict& verdict, const std::filesystem::path& file);
  [[noreturn]] void roll_back(const NonfinitePolicy::Verdict& verdict);

  const Context& context_;
  TrainState& state_;
  TrainStep& step_;
  ProgressLog& log_;
  Checkpointer& checkpoints_;
  bool only_measures_;
  NonfinitePolicy policy_;
};

}  // namespace ddprun
