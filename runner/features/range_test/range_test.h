// SPDX-License-Identifier: MIT
#pragma once

#include "train/feature.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace ddprun {

// Ends a range test (schedule: range_test) where the loss diverges: its exponential moving average is more than four
// times its lowest, or it is not finite.
class RangeTest {
 public:
  // Takes the loss of a step, that of all ranks. Returns why the test ends here, in one sentence; nothing if it
  // continues.
  std::optional<std::string> observe(double loss);

 private:
  int64_t steps_ = 0;
  double sum_ = 0, lowest_ = std::numeric_limits<double>::infinity();
};

// A training that is a range test: it is neither evaluated nor saved, and ends where its loss diverges.
class RangeTestRun final : public Feature {
 public:
  bool only_measures() const override { return true; }
  void add_to_row(const RowSpan& span, NamedValues& values) override;
  void after_rows(Loop& loop) override;

 private:
  RangeTest test_;
  std::optional<std::string> reason_;  // to end here
};

}  // namespace ddprun
