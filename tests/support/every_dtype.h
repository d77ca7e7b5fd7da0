// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/safetensors.h>

#include <ATen/Functions.h>

#include <string>

namespace ddprun {

// Of each element type that files store: a matrix, its transpose, a scalar, and a tensor without elements.
inline TensorDict tensors_of_every_dtype() {
  TensorDict tensors;
  for (const auto dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                           at::kChar, at::kByte, at::kBool}) {
    const std::string name = c10::toString(dtype);
    tensors[name + ".matrix"] = at::arange(12).view({3, 4}).to(dtype);
    tensors[name + ".transposed"] = at::arange(12).view({3, 4}).to(dtype).t();
    tensors[name + ".scalar"] = at::scalar_tensor(1).to(dtype);
    tensors[name + ".empty"] = at::empty({0, 2}, at::dtype(dtype));
  }
  return tensors;
}

}  // namespace ddprun
