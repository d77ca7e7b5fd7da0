// SPDX-License-Identifier: MIT
#include "dataset_scene.h"

#include "problem.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace ddprun::check {

std::shared_ptr<Dataset> started(const DatasetTest& test) {
  auto dataset = in_hook("the constructor", [&] { return test.make(); });
  in_hook("prepare()", [&] { dataset->prepare([](const std::string&, int64_t, int64_t) {}); });
  in_hook("start()", [&] { dataset->start(); });
  return dataset;
}

DataSpec spec_of(const Dataset& dataset) {
  return in_hook("spec()", [&] { return dataset.spec(); });
}

Batch SplitScene::get(const Numbers& some) const {
  auto batch = in_hook("get()", [&] { return dataset.get(split, some); });
  auto tensors = batch.tensors();
  tensors.emplace_back("index", batch.index);
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined()) complain("get() gives a batch whose ", name, " is undefined");
  }
  return batch;
}

std::vector<SplitScene> splits_of(const Dataset& dataset, int64_t samples) {
  std::vector<SplitScene> splits;
  for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) {
    const auto size = in_hook("size()", [&] { return dataset.size(split); });
    const auto count = std::min(size, samples);
    if (count < 1) continue;
    SplitScene scene{.dataset = dataset, .split = split};
    for (int64_t i = 0; i < count; ++i) scene.numbers.push_back(count == 1 ? 0 : i * (size - 1) / (count - 1));
    splits.push_back(std::move(scene));
  }
  return splits;
}

bool same(const at::Tensor& one, const at::Tensor& other) {
  if (one.sizes() != other.sizes() || one.scalar_type() != other.scalar_type()) return false;
  return (one.eq(other) | (one.ne(one) & other.ne(other))).all().item<bool>();
}

void compare_row(const Batch& expected, int64_t row, const Batch& got, int64_t got_row, const std::string& when) {
  const bool equal = std::ranges::equal(expected.tensors(), got.tensors(), [&](const auto& one, const auto& other) {
    return one.first == other.first && same(one.second[row], other.second[got_row]);
  });
  if (!equal) complain("sample ", expected.index[row].item<int64_t>(), " is not the same ", when);
}

}  // namespace ddprun::check
