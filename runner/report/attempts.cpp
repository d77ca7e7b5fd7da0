// SPDX-License-Identifier: MIT
#include "report/attempts.h"

#include <iterator>
#include <limits>

namespace ddprun {

void AttemptStarts::saw(int64_t attempt, int64_t step) {
  if (!starts_.emplace(attempt, step).second) return;
  const auto later = limits_.upper_bound(attempt);
  if (later != limits_.end() && later->second <= step) return;
  auto first = later;
  while (first != limits_.begin() && std::prev(first)->second >= step) --first;
  limits_.erase(first, later);
  limits_.emplace(attempt, step);
}

int64_t AttemptStarts::last_step(int64_t attempt) const {
  const auto later = limits_.upper_bound(attempt);
  return later == limits_.end() ? std::numeric_limits<int64_t>::max() : later->second;
}

}  // namespace ddprun
