// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/dataset.h>

#include <numeric>
#include <vector>

namespace ddprun {

inline Batch first(const Dataset& data, Split split, int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return data.get(split, numbers);
}

}  // namespace ddprun
