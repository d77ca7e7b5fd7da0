// SPDX-License-Identifier: MIT
// Summarizes where the steps spent their time, over a whole run.
#pragma once

#include <ddprun/logger.h>

#include <cstdint>
#include <map>
#include <string>

namespace ddprun::console {

class StepTimes {
 public:
  // Begins after this step.
  explicit StepTimes(int64_t step = 0) : step_(step) {}

  // Adds a row of the split "system".
  void add(const MetricRow& row);

  // Returns "52.4 ms: forward 31 %, backward 45 %, waiting for others 6 %, ..."; empty if nothing was measured.
  std::string phases() const;

  // Returns "rank 3 in 90 % of the steps, 12 % above the mean"; empty unless one rank is the slowest again and again,
  // by more than 1 %.
  std::string slowest() const;

 private:
  double mean_of(const std::string& name) const;

  int64_t step_;                          // of the last row
  double steps_ = 0;                      // of all rows
  std::map<std::string, double> sums_;    // by name, over the steps
  std::map<int64_t, double> slowest_in_;  // steps, by the rank that was the slowest
};

}  // namespace ddprun::console
