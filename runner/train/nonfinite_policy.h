// SPDX-License-Identifier: MIT
// Decides what happens after a step whose loss or gradients are NaN or infinite (trainer.on_nonfinite): training ends,
// skips the step, or rolls back to the last checkpoint and skips the batch.
//
// A step stays open until all ranks know whether it was nonfinite: its flag travels with Agreement's exchange, and all
// open steps are settled before anything that would keep or show their effect (a row, an evaluation, a checkpoint).
// Only then are its metrics added to the log's sums. Used from the training thread, by all ranks alike.
#pragma once

#include "train/agreement.h"
#include "train/progress_log.h"
#include "train/train_state.h"
#include "train/train_step.h"

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

// Writes the event to <run>/nonfinite/step_00000037.json, unless the file exists from an earlier attempt. `action` is
// trainer.on_nonfinite. Throws if it cannot be written.
void write_event(const NonfiniteEvent& event, OnNonfinite action, const std::filesystem::path& file);

class NonfinitePolicy {
 public:
  // The verdict that training must roll back because of a step; the trainer does so.
  struct Rollback {
    int64_t step = 0;
    std::string found, advice;  // "step 37: the training loss is not finite: ...", ". Lower the learning rate ..."
  };
  using Verdict = std::optional<Rollback>;  // empty: training continues

  // All parts outlive it.
  struct Parts {
    const TrainerConfig& config;
    std::filesystem::path run_dir;
    Communicator& communicator;
    c10::Device device;
    TrainState& state;
    ProgressLog& log;
  };

  explicit NonfinitePolicy(Parts parts) : parts_(std::move(parts)) {}

  // Restarts at the beginning of an attempt and after a rollback.
  void restart();

  // Returns whether the batch of this step is skipped, since training rolled back because of it.
  bool skips(int64_t step) const;

  void open(OpenStep step) { open_.push_back(std::move(step)); }

  // Raises the flags of the steps that the device has finished, for Agreement's next exchange.
  void hand_in(Flags& mine);

  // Close steps, and throw UserError if the run must end: with "stop", and after too many skips in a row.
  // close_agreed() closes the steps of an exchange, settle() all open ones, with an exchange of its own. Collective.
  Verdict close_agreed(const Flags& agreed);
  Verdict settle() { return settle(open_.size()); }

  // Counts a rollback to the checkpoint `from`. Throws UserError after too many to the same one.
  void count_rollback(const Rollback& rollback, int64_t from);
  void rolled_back(int64_t to) { rollbacks_.to = to; }

  // Throws UserError if weights are not finite, which must not replace good ones in a checkpoint: gradients may be
  // finite and the step too long all the same.
  void check_weights(const Model& model) const;

 private:
  Verdict settle(size_t count);
  Verdict close(bool nonfinite);
  Verdict judge(const OpenStep& step);

  Parts parts_;
  std::deque<OpenStep> open_;  // by step
  int64_t handed_in_ = -1;     // the last step whose flag was exchanged
  struct {
    int64_t to = -1;
    int64_t count = 0;
  } rollbacks_;  // to the checkpoint of that step
};

}  // namespace ddprun
