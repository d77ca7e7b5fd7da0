// SPDX-License-Identifier: MIT
// How two tensors differ that should hold the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace ddprun {

bool same_bits(const at::Tensor& one, const at::Tensor& other);

// Returns "3 of 320 numbers, by up to 6e-08 (1 unit in the last place)", or "another shape or type".
std::string difference_text(const at::Tensor& one, const at::Tensor& other);

}  // namespace ddprun
