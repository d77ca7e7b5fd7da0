// SPDX-License-Identifier: MIT
// What numbers in an experiment may be where nothing else bounds them.
#pragma once

#include <cstdint>
#include <limits>

namespace ddprun {

inline constexpr int64_t kMost = 1'000'000'000;  // far beyond any run; keeps products of two within an int64
inline constexpr double kLargest = std::numeric_limits<double>::max();

}  // namespace ddprun
