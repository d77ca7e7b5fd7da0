// SPDX-License-Identifier: MIT
// What the loops of pooled_cells.inc take besides values.
#pragma once

#include <cstdint>

namespace ddprun {

inline constexpr uint8_t kCut = 4;  // added to a place where ReLU cut the value off

// Of one image and of what is pooled of it.
struct ImageShape {
  int64_t height, width, channels;
  int64_t pooled_height() const { return height / 2; }
  int64_t pooled_width() const { return width / 2; }
  int64_t row() const { return width * channels; }
  int64_t size() const { return height * row(); }
  int64_t pooled_size() const { return pooled_height() * pooled_width() * channels; }
};

// Numbers of each channel: a gradient is factor * its own + slope * (value - mean) + constant.
struct NormTerms {
  const float *factor, *slope, *mean, *constant;
};

}  // namespace ddprun
