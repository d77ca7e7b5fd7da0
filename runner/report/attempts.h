// SPDX-License-Identifier: MIT
// Tracks where the attempts of a run began: rows that an earlier attempt wrote beyond that came again, and do not
// count.
#pragma once

#include <cstdint>
#include <map>

namespace ddprun {

class AttemptStarts {
 public:
  // The first step that is reported for an attempt counts as its start.
  void saw(int64_t attempt, int64_t step);

  // Returns the last step of an attempt that no later one has redone.
  int64_t last_step(int64_t attempt) const;

  bool counts(int64_t attempt, int64_t step) const { return step <= last_step(attempt); }
  int64_t newest() const { return starts_.empty() ? 0 : starts_.rbegin()->first; }

 private:
  std::map<int64_t, int64_t> starts_;
  std::map<int64_t, int64_t> limits_;  // only those not lowered by a later attempt: steps ascend with the attempts
};

}  // namespace ddprun
