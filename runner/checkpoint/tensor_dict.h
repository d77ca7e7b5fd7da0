// SPDX-License-Identifier: MIT
// Tensors by name, and the .safetensors files that store them.
#pragma once

#include "base/durable_file.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

// Tensors by name: weights and buffers, an optimizer's state, a generator's state.
using TensorDict = std::map<std::string, at::Tensor>;

// Returns the safetensors name of an element type that our files store: F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL.
std::optional<std::string_view> dtype_name(at::ScalarType dtype);
std::optional<at::ScalarType> dtype_from_name(std::string_view name);

// Returns the elements' bytes, or nothing if that is more than an int64_t can hold.
std::optional<int64_t> byte_count(at::IntArrayRef shape, at::ScalarType dtype);

// Throws std::invalid_argument naming the tensor if no file can store it: undefined, sparse, quantized, another dtype.
void require_storable(const std::string& name, const at::Tensor& tensor);

// Returns the tensor on the CPU, detached, dense and alone in its storage, so that writing a slice does not write all
// that it was cut from. Copies only if needed. Keeps strides (channels last).
at::Tensor to_dense_host(const at::Tensor& tensor);

// The safetensors format: weights only, nothing executable; Hugging Face's library and many others read it.
//
//   8 bytes    N, the header's length, little-endian
//   N bytes    JSON {"conv1.weight": {"dtype": "F32", "shape": [20, 1, 5, 5], "data_offsets": [0, 2000]}, ...},
//              padded with spaces
//   the rest   the elements of each tensor, row-major, one after the other without a gap

// Writes the tensors one after the other. Only those on a GPU or with strides are copied, one at a time. Throws
// UserError if the file cannot be written, std::invalid_argument for a tensor that it cannot hold.
FileDigest write_safetensors(const std::filesystem::path& file, const TensorDict& tensors);

// Reads all tensors to the CPU. Throws UserError naming the file and the flaw if it is not a whole and valid file.
TensorDict read_safetensors(const std::filesystem::path& file);

}  // namespace ddprun
