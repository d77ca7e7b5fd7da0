// SPDX-License-Identifier: MIT
// A step whose loss or gradients were NaN or infinite: what all ranks know of it, as text and as
// <run>/nonfinite/step_00000037.json.
#pragma once

#include "train/train_step.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

// A step that is done, or under way on a GPU, while the ranks do not all know yet whether it was nonfinite.
struct OpenStep {
  int64_t step = 0, epoch = 0;  // counted from 1
  at::Tensor samples;           // [B] int64 on the CPU: this rank's part of the batch, in numbers of the training split
  StepOutcome outcome;
};

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

}  // namespace ddprun
