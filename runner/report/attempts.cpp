// SPDX-License-Identifier: MIT
#include "report/attempts.h"

#include <algorithm>
#include <limits>

namespace ddprun {

int64_t AttemptStarts::last_step(int64_t attempt) const {
  auto last = std::numeric_limits<int64_t>::max();
  for (auto later = starts_.upper_bound(attempt); later != starts_.end(); ++later) last = std::min(last, later->second);
  return last;
}

}  // namespace ddprun
