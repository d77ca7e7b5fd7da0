// SPDX-License-Identifier: MIT
// Checks that augmentation depends on nothing but the sample, the seed and the epoch.
#include "dataset_scene.h"
#include "problem.h"

#include <ddprun/testing/dataset.h>

#include <ATen/ATen.h>

#include <algorithm>

namespace ddprun::check {
namespace {

Batch rows_of(const Batch& batch, const at::Tensor& rows) {
  auto some = batch;
  some.replace_tensors([&](const at::Tensor& tensor) { return tensor.index_select(0, rows); });
  some.index = batch.index.index_select(0, rows);
  return some;
}

Batch augmented(const Dataset& dataset, const Batch& batch, const AugmentKey& key) {
  const std::span numbers(batch.index.const_data_ptr<int64_t>(), static_cast<size_t>(batch.index.numel()));
  auto drawn = in_hook("draw()", [&] { return dataset.draw(numbers, key); });
  in_hook("augment()", [&] { dataset.augment(drawn, key); });
  return drawn;
}

bool alike(const at::Tensor& one, const at::Tensor& other) {
  return one.sizes() == other.sizes() && one.scalar_type() == other.scalar_type() &&
         at::allclose(one.to(at::kDouble), other.to(at::kDouble), 1e-4, 1e-4, /*equal_nan=*/true);
}

bool alike(const Batch& one, const Batch& other) {
  return std::ranges::equal(one.tensors(), other.tensors(),
                            [](const auto& a, const auto& b) { return alike(a.second, b.second); });
}

void check_augmentation(const Dataset& dataset, const Batch& batch) {
  const AugmentKey key{.seed = 5, .epoch = 2};
  const auto all = at::arange(batch.size(), at::kLong);
  const auto whole = augmented(dataset, rows_of(batch, all), key);
  if (whole.input.size(0) != batch.size())
    complain("augment() makes ", whole.input.size(0), " samples of ", batch.size());
  for (const int64_t stride : {2, 3}) {
    for (int64_t first = 0; first < stride && first < batch.size(); ++first) {
      const auto rows = at::arange(first, batch.size(), stride, at::kLong).flip(0);
      const auto some = augmented(dataset, rows_of(batch, rows), key);
      if (alike(some, rows_of(whole, rows))) continue;
      complain(
          "augment() changes a sample differently in another batch, or the second time: draw from key and "
          "Batch::index ",
          "alone, as uniform_for_samples() of <ddprun/random.h> does");
    }
  }
}

}  // namespace

std::string augmentation(const DatasetTest& test) {
  return problem_of([&] {
    const auto dataset = started(test);
    const auto splits = splits_of(*dataset, test.samples);
    if (!splits.empty()) check_augmentation(*dataset, splits.front().get());
  });
}

}  // namespace ddprun::check
