// SPDX-License-Identifier: MIT
// What training does about a step whose loss or gradients are NaN or infinite (trainer.on_nonfinite): it ends, skips
// the step, or goes back to the last checkpoint and past the batch.
//
// A step stays open until all ranks know whether it was nonfinite: its flag goes with Agreement's exchange, and before
// anything that would keep or show what it did (a row, an evaluation, a checkpoint) all open ones are settled. Its
// metrics come into the log's sums only then. Used from the training thread, by all ranks alike.
//
// The policy decides and changes nothing: the trainer counts, logs, goes back and throws.
#pragma once

#include "train/agreement.h"
#include "train/train_state.h"
#include "train/train_step.h"

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// A step that is done, or under way on a GPU, while the ranks do not all know yet whether it was nonfinite.
struct OpenStep {
  int64_t step = 0, epoch = 0;  // counted from 1
  at::Tensor samples;           // [B] int64 on the CPU: this rank's part of the batch, in numbers of the training split
  StepOutcome outcome;
};

// A step whose loss or gradients were NaN or infinite: what all ranks know of it, as text and as
// <run>/nonfinite/step_00000037.json.
struct NonfiniteEvent {
  struct Part {
    double loss = 0;               // mean over the rank's samples
    std::vector<int64_t> samples;  // none on a rank that had to borrow one
  };
  int64_t step = 0, epoch = 0;
  std::vector<Part> ranks;

  // "step 37: the training loss is not finite: nan on rank 1, 0.52 on rank 0", or that it is the gradients.
  std::string text() const;
};

// Of this step, from all ranks. Collective.
NonfiniteEvent gather_event(const OpenStep& step, Communicator& communicator);

std::filesystem::path event_file(const std::filesystem::path& run_dir, int64_t step);

// Unless the file is there from an earlier attempt. `action` is trainer.on_nonfinite. Throws where it cannot be
// written.
void write_event(const NonfiniteEvent& event, OnNonfinite action, const std::filesystem::path& file);

class NonfinitePolicy {
 public:
  enum class Action { kKeep, kSkip, kRollBack, kStop };

  // What is to be done about one step.
  struct Verdict {
    Action action = Action::kKeep;
    OpenStep step;
    NonfiniteEvent event = {};  // as `found` and `error`, of a step that is not kept
    std::string found = {};     // "step 37: the training loss is not finite: ..."
    std::string error = {};     // with kStop, the text to end with: what was found, and what to do
  };

  // All outlive it.
  struct Parts {
    const TrainerConfig& config;
    std::filesystem::path run_dir;
    Communicator& communicator;
    c10::Device device;
    const TrainState& state;
  };

  explicit NonfinitePolicy(Parts parts) : parts_(std::move(parts)) {}

  // At the start of an attempt, and after a rollback.
  void restart();

  // Whether the batch of this step is passed over, since training has gone back because of it.
  bool skips(int64_t step) const;

  void open(OpenStep step) { open_.push_back(std::move(step)); }

  // Raises the flags of the steps that the device is done with, for Agreement's next exchange.
  void hand_in(Flags& mine);

  // From then on all ranks know of the steps that an exchange was about, or, by an exchange of its own, of all that are
  // open. next() is to be called until it returns nothing. Collective.
  void learn(const Flags& agreed);
  void settle() { settle(open_.size()); }

  // The verdict on the first step that all ranks know of, which is then no longer open; nothing where there is none.
  // `last_checkpoint` is the step of the one to go back to. Collective.
  std::optional<Verdict> next(int64_t last_checkpoint);

  // Training has gone back for a verdict: from the checkpoint of the step `from` on, or from `to` where that was
  // broken.
  void rolled_back(int64_t from, int64_t to);

  // Weights that are no numbers must not take the place of good ones in a checkpoint: gradients may be finite and the
  // step too long all the same. Returns the text of an error, or nothing.
  std::optional<std::string> problem_of_weights(const Model& model) const;

 private:
  void settle(size_t count);
  Verdict judge(OpenStep step, int64_t last_checkpoint) const;
  std::string advice(int64_t step) const;

  Parts parts_;
  std::deque<OpenStep> open_;   // by step
  std::deque<bool> nonfinite_;  // of the first of them, what all ranks know; empty but between learn() and next()
  int64_t handed_in_ = -1;      // the last step whose flag went into an exchange
  struct {
    int64_t to = -1;
    int64_t count = 0;
  } rollbacks_;  // to the checkpoint of that step
};

}  // namespace ddprun
