// SPDX-License-Identifier: MIT
#include "random_crop.h"

#include <algorithm>
#include <cmath>

namespace ddprun::images {
namespace {

// Rounds a half to the even number.
int64_t rounded(double number) { return static_cast<int64_t>(std::nearbyint(number)); }

Box middle_box(const Size& size, const CropRange& range) {
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  Size part = size;
  if (width / height < range.ratio[0]) part.height = std::min(size.height, rounded(width / range.ratio[0]));
  if (width / height > range.ratio[1]) part.width = std::min(size.width, rounded(height * range.ratio[1]));
  part = {std::max<int64_t>(part.height, 1), std::max<int64_t>(part.width, 1)};
  return {(size.height - part.height) / 2, (size.width - part.width) / 2, part};
}

}  // namespace

Box random_box(const Size& size, const CropRange& range, RandomStream& random) {
  constexpr int kTries = 10;
  const auto area = static_cast<double>(size.height * size.width);
  const auto number_up_to = [&](int64_t most) {
    return static_cast<int64_t>(random.below(static_cast<uint64_t>(most) + 1));
  };
  for (int i = 0; i < kTries; ++i) {
    const double target = area * random.uniform(range.scale[0], range.scale[1]);
    const double ratio = std::exp(random.uniform(std::log(range.ratio[0]), std::log(range.ratio[1])));
    const Size part{rounded(std::sqrt(target / ratio)), rounded(std::sqrt(target * ratio))};
    if (part.height < 1 || part.height > size.height || part.width < 1 || part.width > size.width) continue;
    const auto top = number_up_to(size.height - part.height);
    return {top, number_up_to(size.width - part.width), part};
  }
  return middle_box(size, range);
}

}  // namespace ddprun::images
