// SPDX-License-Identifier: MIT
// What is learned from a text: each of its symbols from those before it.
#pragma once

#include <ddprun/batch.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun::text {

// Returns the batch of these windows, input and target [B, context] int64: the target is the window moved on by one
// symbol. copy(index, symbols) writes the context + 1 symbols of a window; change(symbols, target) may change the
// context targets of each. Throws std::out_of_range for an index that is not below `size`.
template <class Copy, class Change>
Batch gather_windows(std::span<const int64_t> indices, int64_t context, int64_t size, Copy copy, Change change) {
  const auto count = static_cast<int64_t>(indices.size());
  Batch batch{.input = at::empty({count, context}, at::kLong),
              .target = at::empty({count, context}, at::kLong),
              .index = at::tensor(at::IntArrayRef(indices.data(), indices.size()), at::kLong)};
  auto* input = batch.input.mutable_data_ptr<int64_t>();
  auto* target = batch.target.mutable_data_ptr<int64_t>();
  std::vector<int64_t> symbols(static_cast<size_t>(context) + 1);
  for (const int64_t index : indices) {
    if (index < 0 || index >= size) throw std::out_of_range("sample " + std::to_string(index));
    copy(index, std::span(symbols));
    input = std::copy_n(symbols.begin(), context, input);
    const auto end = std::copy_n(symbols.begin() + 1, context, target);
    change(std::span<const int64_t>(symbols), target);
    target = end;
  }
  return batch;
}

template <class Copy>
Batch gather_windows(std::span<const int64_t> indices, int64_t context, int64_t size, Copy copy) {
  return gather_windows(indices, context, size, copy, [](std::span<const int64_t>, int64_t*) {});
}

}  // namespace ddprun::text
