// SPDX-License-Identifier: MIT
#include "directions.h"

#include <ATen/ops/zeros.h>

#include <array>
#include <map>

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

std::array<int64_t, 2> shape_in_memory(const at::Tensor& parameter) {
  const auto rows = parameter.size(0), columns = c10::multiply_integers(parameter.sizes().slice(1));
  if (rows_of(parameter) == Rows::kInnermost) return {columns, rows};
  return {rows, columns};
}

}  // namespace

bool is_matrix_in_memory(const at::Tensor& parameter) {
  return parameter.is_non_overlapping_and_dense() && rows_of(parameter) != Rows::kAmong;
}

Directions zero_directions(const std::vector<at::Tensor>& parameters) {
  std::map<std::array<int64_t, 2>, std::vector<size_t>> of_shape;
  int64_t numbers = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    of_shape[shape_in_memory(parameters[i])].push_back(i);
    numbers += parameters[i].numel();
  }
  const auto memory = at::zeros({numbers}, parameters.front().options().requires_grad(false));
  Directions directions{.tensors = std::vector<at::Tensor>(parameters.size())};
  int64_t end = 0;
  for (const auto& [shape, members] : of_shape) {
    const int64_t begin = end;
    for (const size_t i : members) {
      directions.tensors[i] = memory.as_strided(parameters[i].sizes(), parameters[i].strides(), end);
      end += parameters[i].numel();
    }
    const auto count = static_cast<int64_t>(members.size());
    directions.stacks.push_back(memory.slice(0, begin, end).view({count, shape[0], shape[1]}));
  }
  return directions;
}

}  // namespace ddprun
