// SPDX-License-Identifier: MIT
#include "directions.h"

#include <ATen/ops/zeros.h>

#include <utility>

namespace ddprun {
namespace {

enum class Rows { kOutermost, kInnermost, kAmong };  // where the first dimension lies in memory

Rows rows_of(const at::Tensor& parameter) {
  bool outermost = true, innermost = true;
  for (int64_t i = 1; i < parameter.dim(); ++i) {
    if (parameter.size(i) == 1 || parameter.size(0) == 1) continue;
    outermost = outermost && parameter.stride(i) < parameter.stride(0);
    innermost = innermost && parameter.stride(i) > parameter.stride(0);
  }
  return outermost ? Rows::kOutermost : innermost ? Rows::kInnermost : Rows::kAmong;
}

constexpr int64_t kStackNumbers = int64_t{1} << 22;

}  // namespace

std::array<int64_t, 2> shape_in_memory(const at::Tensor& parameter) {
  const auto rows = parameter.size(0), columns = c10::multiply_integers(parameter.sizes().slice(1));
  if (rows_of(parameter) == Rows::kInnermost) return {columns, rows};
  return {rows, columns};
}

void Stacks::add(const std::vector<NamedParameter>& group) {
  std::map<std::array<int64_t, 2>, size_t> open;  // the last stack of each shape
  for (const auto& parameter : group) {
    const auto& value = parameter.value;
    const auto [found, is_new] = open.try_emplace(shape_in_memory(value), all_.size());
    const auto is_full = [&] { return std::ssize(all_[found->second]) * value.numel() >= kStackNumbers; };
    if (!is_new && is_full()) found->second = all_.size();
    if (found->second == all_.size()) all_.emplace_back();
    places_[value.unsafeGetTensorImpl()] = found->second;
    all_[found->second].push_back(parameter);
  }
}

bool is_matrix_in_memory(const at::Tensor& parameter) {
  return parameter.is_non_overlapping_and_dense() && rows_of(parameter) != Rows::kAmong;
}

// Each stack begins where kernels find the same alignment, whatever other stacks there are: they would round otherwise.
Directions zero_directions(const std::vector<at::Tensor>& parameters, const Stacks& stacks) {
  constexpr int64_t kAlignment = 256;  // numbers
  std::map<size_t, std::vector<size_t>> of_stack;
  for (size_t i = 0; i < parameters.size(); ++i) of_stack[stacks.of(parameters[i])].push_back(i);
  int64_t numbers = 0;
  std::vector<int64_t> places(parameters.size());
  for (const auto& [stack, members] : of_stack) {
    numbers = (numbers + kAlignment - 1) / kAlignment * kAlignment;
    for (const size_t i : members) places[i] = std::exchange(numbers, numbers + parameters[i].numel());
  }
  const auto memory = at::zeros({numbers}, parameters.front().options().requires_grad(false));
  Directions directions;
  for (size_t i = 0; i < parameters.size(); ++i)
    directions.tensors.push_back(memory.as_strided(parameters[i].sizes(), parameters[i].strides(), places[i]));
  for (const auto& [stack, members] : of_stack) {
    const auto& first = parameters[members.front()];
    const auto [rows, columns] = shape_in_memory(first);
    const auto count = std::ssize(members);
    directions.stacks.push_back(
        memory.narrow(0, places[members.front()], count * first.numel()).view({count, rows, columns}));
  }
  return directions;
}

}  // namespace ddprun
