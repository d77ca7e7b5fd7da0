// SPDX-License-Identifier: MIT
// The keys whose values a run's folder or its checkpoint has fixed: a resumed run could only ignore another value, so
// it refuses it. All others are obeyed from the resumed step on. The batch is compared in the worker, which knows the
// number of samples that the checkpoint was trained with (TrainState).
#pragma once

#include "config/experiment.h"

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace ddprun {

struct FixedKey {
  // What has fixed the value; kSubmit: nothing, since only `ddprun submit` reads the key.
  enum class By { kFolder, kCheckpoint, kSubmit };

  const char* key;  // "seed"; a section means all of its keys
  By by;
  // Returns the value as text, with defaults filled in; none if it was not decided yet and may still be chosen.
  std::optional<std::string> (*value)(const Experiment& experiment);
  const char* instead;  // why another value has no effect, and what has
};
std::span<const FixedKey> fixed_keys();

// Returns a line for each fixed key whose value is not the recorded one, with its place in the experiment. Only what is
// fixed by one of `by` counts.
std::vector<std::string> ignored_changes(const Experiment& recorded, const Experiment& now,
                                         const std::set<FixedKey::By>& by);

// Returns the keys that only training reads, of sections that both may have, whose values are not the recorded ones: a
// run that has done all of its steps could only ignore them.
std::vector<std::string> changes_of_training(const Value& recorded, const Value& now);

}  // namespace ddprun
