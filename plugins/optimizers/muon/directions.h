// SPDX-License-Identifier: MIT
// The update directions for the parameters of one call: one tensor each, and the same numbers as stacks of matrices.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace ddprun {

// Both are views of the same memory.
struct Directions {
  std::vector<at::Tensor> tensors;  // in the parameters' order, with their sizes and strides, as the kernels need
  std::vector<at::Tensor> stacks;   // [n, rows, columns], grouped by shape
};

// Returns true if all but the first dimension can be merged without a copy, as with contiguous and channels_last
// weights.
bool is_matrix_in_memory(const at::Tensor& parameter);

// Makes zeros for parameters of one device and type that are matrices in memory, with at least two dimensions. Columns
// follow the memory order, and a matrix that is stored by columns appears transposed: orthogonalised() gives the same.
Directions zero_directions(const std::vector<at::Tensor>& parameters);

}  // namespace ddprun
