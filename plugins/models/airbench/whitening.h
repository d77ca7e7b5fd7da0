// SPDX-License-Identifier: MIT
// Filters that whiten the small patches of images: their outputs on a data set's patches are uncorrelated, with
// variance 1.
#pragma once

#include <ddprun/dataset.h>

#include <ATen/core/Tensor.h>

namespace ddprun::airbench {

struct Whitening {
  int64_t images = 5000;  // the first ones of the training split; all if there are fewer
  int64_t side = 2;       // of a patch
  double eps = 5e-4;      // added to each variance, so that nearly absent directions are not blown up
};

// Returns [C * side * side, C, side, side] float32: the eigenvectors of the patches' covariance, each divided by its
// standard deviation, the smallest first. The training samples must be images [C, H, W].
at::Tensor whitening_filters(const Dataset& data, const Whitening& how);

}  // namespace ddprun::airbench
