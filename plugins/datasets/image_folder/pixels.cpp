// SPDX-License-Identifier: MIT
#include "pixels.h"

#include <algorithm>
#include <utility>

namespace ddprun::images {

Pixels part_of(const Pixels& whole, const Box& box) {
  const auto row = static_cast<size_t>(whole.size.width * whole.channels),
             part = static_cast<size_t>(box.size.width * whole.channels);
  Pixels pixels{.size = box.size, .channels = whole.channels};
  pixels.bytes.resize(part * static_cast<size_t>(box.size.height));
  const auto* from =
      whole.bytes.data() + static_cast<size_t>(box.top) * row + static_cast<size_t>(box.left * whole.channels);
  for (size_t at = 0; at < pixels.bytes.size(); at += part, from += row) std::copy_n(from, part, &pixels.bytes[at]);
  return pixels;
}

Pixels with_channels(Pixels pixels, int64_t channels) {
  if (pixels.channels == channels) return pixels;
  const auto count = static_cast<size_t>(pixels.size.height * pixels.size.width);
  Pixels changed{.size = pixels.size, .channels = channels, .bytes = std::vector<uint8_t>(count * size_t(channels))};
  for (size_t i = 0; i < count; ++i) {
    const auto* from = &pixels.bytes[i * static_cast<size_t>(pixels.channels)];
    if (channels == 1) {
      changed.bytes[i] = grey_of(from[0], from[1], from[2]);
    } else {
      std::fill_n(&changed.bytes[3 * i], 3, *from);
    }
  }
  return changed;
}

}  // namespace ddprun::images
