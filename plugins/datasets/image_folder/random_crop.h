// SPDX-License-Identifier: MIT
// A part of a picture of random size and shape, as Szegedy et al. draw it ("Going deeper with convolutions", 2015).
#pragma once

#include "pixels.h"

#include <ddprun/random.h>

#include <array>

namespace ddprun::images {

struct CropRange {
  std::array<double, 2> scale{0.08, 1};           // share of the picture's area
  std::array<double, 2> ratio{3. / 4., 4. / 3.};  // width to height
};

// Draws a box that lies in a picture of this size: the area uniformly, the logarithm of the ratio uniformly, then the
// place. After ten tries that do not fit, it is the largest box in the middle whose ratio is allowed. The same
// distribution as torchvision's RandomResizedCrop.
Box random_box(const Size& size, const CropRange& range, RandomStream& random);

}  // namespace ddprun::images
