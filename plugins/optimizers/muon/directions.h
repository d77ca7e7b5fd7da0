// SPDX-License-Identifier: MIT
// Where the parameters of one call are to go: a tensor for each, and the same numbers as stacks of matrices.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace ddprun {

// Both are views of one memory.
struct Directions {
  std::vector<at::Tensor> tensors;  // in the parameters' order, with their sizes and strides, as the kernels want it
  std::vector<at::Tensor> stacks;   // [n, rows, columns], those of one shape together
};

// Whether all but the first dimension can be taken for one without a copy: so with contiguous and with channels_last
// weights.
bool is_matrix_in_memory(const at::Tensor& parameter);

// Zeroes for parameters of one device and type that are matrices in memory, with at least two dimensions. Columns are
// in the order of the memory, and a matrix that is stored by columns is there transposed: orthogonalised() gives the
// same.
Directions zero_directions(const std::vector<at::Tensor>& parameters);

}  // namespace ddprun
