// SPDX-License-Identifier: MIT
// The arguments of the loops in pooled_cells.inc, other than values.
#pragma once

#include <cstdint>

namespace ddprun {

inline constexpr uint8_t kCut = 4;  // added to a place if the ReLU cut the value off

// The sizes of one image, before and after pooling.
struct ImageShape {
  int64_t height, width, channels;
  int64_t pooled_height() const { return height / 2; }
  int64_t pooled_width() const { return width / 2; }
  int64_t row() const { return width * channels; }
  int64_t size() const { return height * row(); }
  int64_t pooled_size() const { return pooled_height() * pooled_width() * channels; }
};

// Per channel: a gradient is factor * its own + slope * (value - mean) + constant.
struct NormTerms {
  const float *factor, *slope, *mean, *constant;
};

}  // namespace ddprun
