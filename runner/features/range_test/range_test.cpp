// SPDX-License-Identifier: MIT
#include "features/range_test/range_test.h"

#include "step/context.h"

#include <algorithm>
#include <cmath>

namespace ddprun {
namespace {

constexpr double kMemory = 0.98;  // share of the average that a step keeps
constexpr int64_t kFewestSteps = 10;

}  // namespace

std::optional<std::string> RangeTest::observe(double loss) {
  if (!std::isfinite(loss)) return "the loss is no longer finite";
  ++steps_;
  sum_ = kMemory * sum_ + (1 - kMemory) * loss;
  const double average = sum_ / (1 - std::pow(kMemory, static_cast<double>(steps_)));
  lowest_ = std::min(lowest_, average);
  const bool diverged = average > lowest_ + 3 * std::abs(lowest_);  // four times a loss that is above zero
  if (!diverged || steps_ < kFewestSteps) return std::nullopt;
  return "the loss diverges";
}

// By the loss that the row has of all ranks.
void RangeTestRun::add_to_row(const RowSpan& span, NamedValues& values) {
  const auto loss = std::ranges::find(values, "loss", &NamedValues::value_type::first);
  if (!span.is_part && loss != values.end()) reason_ = test_.observe(loss->second);
}

void RangeTestRun::after_rows(Loop& loop) {
  if (reason_) loop.state.stop_early(*reason_);
}

std::unique_ptr<Feature> make_range_test(const Context& context, const TrainPlan& /*plan*/) {
  return context.experiment.is_range_test() ? std::make_unique<RangeTestRun>() : nullptr;
}

}  // namespace ddprun
