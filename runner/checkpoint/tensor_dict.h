// SPDX-License-Identifier: MIT
// Tensors by name, and which of them a file can hold.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

// Tensors by name: weights and buffers, an optimizer's state, a generator's state.
using TensorDict = std::map<std::string, at::Tensor>;

// The types of elements that our files hold, by their names in safetensors: F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL.
std::optional<std::string_view> dtype_name(at::ScalarType dtype);
std::optional<at::ScalarType> dtype_from_name(std::string_view name);

// The elements' bytes: shape times size of one. Nothing where that is more than an int64_t can count.
std::optional<int64_t> byte_count(at::IntArrayRef shape, at::ScalarType dtype);

// Throws std::invalid_argument naming the tensor where no file can hold it: undefined, sparse, quantized, another
// dtype.
void require_storable(const std::string& name, const at::Tensor& tensor);

// The tensor on the CPU without its history, dense and alone in its storage, so that writing a slice does not write all
// that it was cut from. A tensor that is all this already is not copied. Strides (channels last) are kept.
at::Tensor to_dense_host(const at::Tensor& tensor);

}  // namespace ddprun
