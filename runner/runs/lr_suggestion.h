// SPDX-License-Identifier: MIT
// Suggests a learning rate from a range test, in which it rises from step to step: what `ddprun find-lr` prints and the
// report draws (Smith: "Cyclical learning rates for training neural networks", 2017).
#pragma once

#include "runs/curves.h"

#include <ddprun/value.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// The loss of a step, and optimizer.lr in it.
struct LossAtLr {
  double lr = 0, loss = 0;
};

struct LrSuggestion {
  std::vector<LossAtLr> points;  // those with a finite loss, by ascending lr; of very many steps means of several
  std::vector<double> smoothed;  // their losses, each the mean of those near to it
  double ceiling = 0;            // a loss above it has diverged; in the means it counts as this
  std::optional<double> lr;      // the suggestion, where the smoothed loss falls fastest; nothing if there is none
  double lowest_lr = 0;          // with a suggestion: where the smoothed loss is lowest
  std::string remark;            // without one: why, and what to do; with one, may be empty

  // Returns the lr in the middle between the two, in decades.
  double halfway_lr() const { return std::sqrt(lr.value_or(0) * lowest_lr); }
};

// Leaves out the first tenth of the points, in which the loss may fall because training has just begun, and all that
// come after the lowest loss. There is no suggestion if the loss falls by no more than its own noise.
LrSuggestion suggest_lr(const std::vector<LossAtLr>& points);

// Returns what the rows of a run suggest; nothing if its experiment's schedule is not range_test.
std::optional<LrSuggestion> suggest_lr(const Value& config, const Curves& curves);
std::optional<LrSuggestion> suggest_lr(const std::filesystem::path& run_dir);

// Returns "0.012": two digits are all that a range test can show.
std::string lr_text(double lr);

}  // namespace ddprun
