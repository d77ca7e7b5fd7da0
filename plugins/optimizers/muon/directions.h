// SPDX-License-Identifier: MIT
// The update directions for the parameters of one call: one tensor each, and the same numbers as stacks of matrices,
// which are computed at once.
#pragma once

#include <ddprun/optimizer.h>

#include <ATen/core/Tensor.h>

#include <array>
#include <map>
#include <vector>

namespace ddprun {

// Which matrices go into one stack: those of one group and shape, in their order, until they have about 4 million
// numbers together. It depends on no gradient, so that a matrix has the same company, and the same bits, in every step
// that trains it, no matter which rank computes the stack.
class Stacks {
 public:
  // Takes a group's parameters, which are matrices in memory, with at least two dimensions.
  void add(const std::vector<NamedParameter>& group);

  const std::vector<std::vector<NamedParameter>>& all() const { return all_; }
  size_t of(const at::Tensor& parameter) const { return places_.at(parameter.unsafeGetTensorImpl()); }

 private:
  std::vector<std::vector<NamedParameter>> all_;
  std::map<const c10::TensorImpl*, size_t> places_;  // in all_
};

// Both are views of the same memory.
struct Directions {
  std::vector<at::Tensor> tensors;  // in the parameters' order, with their sizes and strides, as the kernels need
  std::vector<at::Tensor> stacks;   // [n, rows, columns]
};

// Returns true if all but the first dimension can be merged without a copy, as with contiguous and channels_last
// weights.
bool is_matrix_in_memory(const at::Tensor& parameter);

// Returns rows and columns in the order of memory; a matrix that is stored by columns appears transposed.
std::array<int64_t, 2> shape_in_memory(const at::Tensor& parameter);

// Makes zeros for parameters of one device and type that are in these stacks. A stack of shape_in_memory() serves for
// transposed matrices, too: orthogonalised() gives the same.
Directions zero_directions(const std::vector<at::Tensor>& parameters, const Stacks& stacks);

}  // namespace ddprun
