// SPDX-License-Identifier: MIT
// Summarizes where the steps spent their time, over a whole run.
#pragma once

#include <ddprun/logger.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::console {

class StepTimes {
 public:
  // Begins after this step.
  explicit StepTimes(int64_t step = 0) : step_(step) {}

  void add(const RankTable& table);

  // Returns "52.4 ms: forward 31 %, backward 45 %, waiting for others 6 %, ..."; empty if nothing was measured.
  std::string phases() const;

  // Returns "rank 3, 12 % above the mean"; empty if all are within 1 %.
  std::string slowest() const;

 private:
  double mean_of(const std::string& column) const;

  int64_t step_;      // of the last table
  double steps_ = 0;  // of all tables
  RankTable sums_;    // over the steps
};

}  // namespace ddprun::console
