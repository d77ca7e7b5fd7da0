// SPDX-License-Identifier: MIT
// A small record of a step, for tests to change.
#pragma once

#include "features/record/step_record.h"

namespace ddprun {

// Two shards of two samples and two operators each.
inline StepRecord made_record() {
  StepRecord record{.step = 3};
  for (int64_t shard = 0; shard < 2; ++shard) {
    PartNote part{.number = shard, .loss = 1.5, .weight = 2};
    for (int64_t i = 0; i < 2; ++i) part.samples.push_back({.number = 10 * shard + i, .digest = 7, .loss = 1.0 + i});
    for (const auto* name : {"aten::mm", "aten::relu"})
      part.operators.push_back({.name = name, .parameters = "w", .results = {{"Float[2, 3]", 5, 2.0, true}}});
    record.parts.push_back(part);
  }
  record.gradients = {{.name = "w", .tensor = {"Float[3]", 9, 1.0, true}, .norm = 3}};
  record.left = {{.name = "w", .tensor = {"Float[3]", 8, 1.0, true}, .norm = 4},
                 {.name = "b", .tensor = {"Float[1]", 8, 1.0, true}, .norm = 1}};
  record.begun = record.left;
  return record;
}

}  // namespace ddprun
