// SPDX-License-Identifier: MIT
// Decides what happens after a step whose loss or gradients are NaN or infinite (trainer.on_nonfinite): training ends,
// skips the step, or rolls back to the last checkpoint and skips the batch: this attempt ends, and the next one reads
// in <run>/nonfinite which steps to skip.
//
// A step stays open until all ranks know whether it was nonfinite: its flag travels with Agreement's exchange, and all
// open steps are settled before anything that would keep or show their effect (a row, an evaluation, a checkpoint).
// Only then are its metrics added to the log's sums. Used from the training thread, by all ranks alike.
//
// The policy only decides: the trainer counts, logs and throws.
#pragma once

#include "step/context.h"
#include "step/train_step.h"
#include "train/agreement.h"
#include "train/train_state.h"

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// A step that is done, or running on a GPU, while not all ranks know yet whether it was nonfinite.
struct OpenStep {
  int64_t step = 0, epoch = 0;  // counted from 1
  at::Tensor samples;  // [B] int64 on the CPU: this rank's part of the batch, as indices into the training split
  StepOutcome outcome;
};

// A step whose loss or gradients were NaN or infinite: what all ranks know of it.
struct NonfiniteEvent {
  struct Part {
    double loss = 0;               // mean over the rank's samples
    std::vector<int64_t> samples;  // empty on a rank that had to borrow one
  };
  int64_t step = 0, epoch = 0;
  std::vector<Part> ranks;

  // Returns "step 37: the training loss is not finite: nan on rank 1, 0.52 on rank 0", or the same of the gradients.
  std::string text() const;
};

// Gathers the event of this step from all ranks. Collective.
NonfiniteEvent gather_event(const OpenStep& step, Communicator& communicator);

std::filesystem::path event_file(const std::filesystem::path& run_dir, int64_t step);

// Writes the event to <run>/nonfinite/step_00000037.json, unless the file exists from an earlier attempt; that of a
// rollback takes its place. `action` is trainer.on_nonfinite; with a rollback `to` is the step of the checkpoint.
// Throws if it cannot be written.
void write_event(const NonfiniteEvent& event, OnNonfinite action, int64_t to, const std::filesystem::path& file);

// A rollback of this run, as its event's file has it.
struct Rollback {
  int64_t step = 0, to = 0;
};

// Reads them, in any order. Throws UserError naming a file that is damaged.
std::vector<Rollback> read_rollbacks(const std::filesystem::path& run_dir);

class NonfinitePolicy {
 public:
  enum class Action { kKeep, kSkip, kRollBack, kStop };

  // The decision about one step.
  struct Verdict {
    Action action = Action::kKeep;
    OpenStep step;
    NonfiniteEvent event = {};  // like `found` and `error`, empty if the step is kept
    std::string found = {};     // "step 37: the training loss is not finite: ..."
    std::string error = {};     // with kStop, the text of the error: what was found, and what to do
  };

  // Both outlive it.
  NonfinitePolicy(const Context& context, const TrainState& state) : context_(context), state_(state) {}

  // Learns at the beginning of an attempt what the run has rolled back from, with trainer.on_nonfinite rollback. Only
  // rank 0 need see the run's folder. Collective.
  void start();

  // Returns whether the batch of this step is skipped, since training rolled back because of it.
  bool skips(int64_t step) const;

  void open(OpenStep step) { open_.push_back(std::move(step)); }

  // Raises the flags of steps that the device has finished, for Agreement's next exchange.
  void hand_in(Flags& mine);

  // Make all ranks know of open steps: learn() of the steps of an exchange, settle() of all, with an exchange of its
  // own. The caller then calls next() until it returns nothing. Collective.
  void learn(const Flags& agreed);
  void settle() { settle(open_.size()); }

  // Closes the first step that all ranks know of, and returns the verdict on it; nothing if there is none.
  // `last_checkpoint` is the step of the checkpoint to roll back to. Collective.
  std::optional<Verdict> next(int64_t last_checkpoint);

  // Returns an error text if weights are not finite, which must not replace good ones in a checkpoint: gradients may be
  // finite and the step too long all the same.
  std::optional<std::string> problem_of_weights() const;

 private:
  void settle(size_t count);
  Verdict judge(OpenStep step, int64_t last_checkpoint) const;
  std::string advice(int64_t step) const;

  const Context& context_;
  const TrainState& state_;
  std::deque<OpenStep> open_;   // by step
  std::deque<bool> nonfinite_;  // what all ranks know of the first of them; empty except between learn() and next()
  int64_t handed_in_ = -1;      // the last step whose flag was exchanged
  std::vector<Rollback> rollbacks_;  // of earlier attempts
};

}  // namespace ddprun
