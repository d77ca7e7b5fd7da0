// SPDX-License-Identifier: MIT
// A decoded picture.
#pragma once

#include <cstdint>
#include <vector>

namespace ddprun::images {

inline constexpr int64_t kMostPixels = int64_t{1} << 26;  // 8192 x 8192; larger claims are not decoded
inline constexpr int64_t kMostSide = 1 << 16;

struct Size {
  int64_t height = 0;
  int64_t width = 0;
};

struct Pixels {
  Size size;
  int64_t channels = 3;        // 1: grey; 3: red, green, blue
  std::vector<uint8_t> bytes;  // rows of pixels of channels
};

}  // namespace ddprun::images
