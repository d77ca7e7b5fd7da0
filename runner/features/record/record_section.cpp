// SPDX-License-Identifier: MIT
#include "features/record/record_section.h"

#include "config/feature_section.h"
#include "config/sections.h"

namespace ddprun {
namespace {

RecordConfig read_record(Options& options) {
  constexpr int64_t kMostSteps = 1000;  // a record takes some 100 kB per step
  RecordConfig record;
  record.steps = read_steps(options, "10..20", kMostSteps, "the first and the last step to record");
  record.without = options.get<std::vector<int64_t>>(
      "without", {}, "samples, by their numbers in the training split, that the last of these steps does without");
  const auto kept = options.get<std::vector<int64_t>>(
      "operator", {}, "[rank, part, number] of the operator whose results in the last of these steps are kept");
  if (kept.size() == 3) {
    record.kept = {.rank = kept[0], .part = kept[1], .number = kept[2]};
  } else if (!kept.empty()) {
    options.reject("operator", "expected three numbers: [rank, part, number]");
  }
  return record;
}

}  // namespace

FeatureSection section_of_record() {
  auto section = feature_section<read_record>(
      "record",
      "which steps are recorded operator by operator, {steps: 10..20}, as `ddprun replay` does; none if absent");
  section.idle = {steps_behind_the_end<RecordConfig>("record.steps")};
  return section;
}

}  // namespace ddprun
