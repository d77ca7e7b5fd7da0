// SPDX-License-Identifier: MIT
#include "whitening.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace ddprun::airbench {
namespace {

constexpr int64_t kChunk = 10;  // images at a time, so that their patches stay in the cache

at::Tensor images(const Dataset& data, int64_t first, int64_t count) {
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), first);
  return data.get(Split::kTrain, indices).input.to(at::kDouble);
}

// Returns every patch as a column: [C * side * side, patches].
at::Tensor patches_of(const at::Tensor& images, int64_t side) {
  const auto windows = images.unfold(2, side, 1).unfold(3, side, 1);  // [B, C, rows, columns, side, side]
  return windows.permute({1, 4, 5, 0, 2, 3}).reshape({images.size(1) * side * side, -1});
}

at::Tensor covariance(const Dataset& data, int64_t count, int64_t side) {
  at::Tensor products, sums;
  double patches = 0;
  for (int64_t first = 0; first < count; first += kChunk) {
    const auto columns = patches_of(images(data, first, std::min(kChunk, count - first)), side);
    const auto product = columns.matmul(columns.t()), sum = columns.sum(1);
    products = products.defined() ? products + product : product;
    sums = sums.defined() ? sums + sum : sum;
    patches += static_cast<double>(columns.size(1));
  }
  const auto mean = sums / patches;
  return products / patches - mean.outer(mean);
}

}  // namespace

at::Tensor whitening_filters(const Dataset& data, const Whitening& how) {
  const auto count = std::min(how.images, data.size(Split::kTrain));
  const auto [variances, vectors] = at::linalg_eigh(covariance(data, count, how.side));
  const auto filters = vectors.t() / (variances.clamp_min(0) + how.eps).sqrt().unsqueeze(1);
  return filters.to(at::kFloat).view({filters.size(0), -1, how.side, how.side}).contiguous();
}

}  // namespace ddprun::airbench
