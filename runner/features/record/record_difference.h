// SPDX-License-Identifier: MIT
// Where two records of one step part, and what is unusual in one.
#pragma once

#include "features/record/step_record.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// An operator's place in a record.
struct OperatorPlace {
  int64_t rank = -1, part = 0, number = 0;  // of PartNote; the number in its operators
};

struct RecordDifference {
  std::string text;                      // "shard 0, operator 62 of 79: aten::mm ..."; one sentence without a period
  std::optional<OperatorPlace> results;  // the operator whose results differ, of the same forms in both
};

// Returns the first difference in the order in which a step computes: what it begins with, samples, what the network is
// given for them, how the batch is cut, operators, losses, gradients, what the step leaves. Nothing if both are the
// same.
std::optional<RecordDifference> first_difference(const StepRecord& first, const StepRecord& second);

// Returns the first operator whose results are not finite, or larger than a hundred times the largest that the same
// operator gave in `before`, which are steps of the same run; empty if there is none.
std::string first_odd_operator(const StepRecord& record, const std::vector<StepRecord>& before);

// Returns "shard 3", "the part of rank 1", "micro-batch 2 of rank 1".
std::string part_text(const PartNote& part);

}  // namespace ddprun
