// SPDX-License-Identifier: MIT
// Where the attempts of a run began: what an earlier one had written beyond that came again, and does not count.
#pragma once

#include <cstdint>
#include <map>

namespace ddprun {

class AttemptStarts {
 public:
  // The first of an attempt's steps that is told counts as its start.
  void saw(int64_t attempt, int64_t step);

  // The last step of an attempt that no later one has taken back.
  int64_t last_step(int64_t attempt) const;

  bool counts(int64_t attempt, int64_t step) const { return step <= last_step(attempt); }
  int64_t newest() const { return starts_.empty() ? 0 : starts_.rbegin()->first; }

 private:
  std::map<int64_t, int64_t> starts_;
  std::map<int64_t, int64_t>
      limits_;  // those that no later attempt has put further back: steps ascend with the attempts
};

}  // namespace ddprun
