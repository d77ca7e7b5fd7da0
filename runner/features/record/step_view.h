// SPDX-License-Identifier: MIT
// What a person is shown of one recorded step: why is its loss what it is?
#pragma once

#include "features/record/step_record.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct StepView {
  StepRecord record;
  std::vector<StepRecord> before = {};     // the steps just before it, to compare with; may be empty
  std::vector<int64_t> left_out = {};      // samples that `without` does without
  std::optional<StepRecord> without = {};  // the same step, made without these samples
};

// Returns the samples that have a loss, the largest first; one that is not a number is larger than all.
std::vector<SampleNote> worst_first(const StepRecord& record);

// Returns lines of at most 80 columns where names allow it.
std::string step_text(const StepView& view);

// Returns the same for a page (write_page() in report/report.h), with all samples and gradients. `head` says how the
// step was made again; `shown` is what the page shows of the worst samples, in their order.
nlohmann::ordered_json step_sheet(const StepView& view, const std::string& head, const nlohmann::ordered_json& shown);

}  // namespace ddprun
