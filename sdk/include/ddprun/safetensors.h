// SPDX-License-Identifier: MIT
// Tensors by name, and the .safetensors files that store them: weights only, nothing executable; Hugging Face's library
// and many others read them.
//
//   8 bytes    N, the header's length, little-endian
//   N bytes    JSON {"conv1.weight": {"dtype": "F32", "shape": [20, 1, 5, 5], "data_offsets": [0, 2000]}, ...},
//              padded with spaces
//   the rest   the elements of each tensor, row-major, one after the other without a gap
#pragma once

#include <ddprun/api.h>
#include <ddprun/files.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Tensors by name: weights and buffers, an optimizer's state, a generator's state.
using TensorDict = std::map<std::string, at::Tensor>;

// Writes the tensors one after the other, those of the largest elements first. Only those on a GPU or with strides are
// copied, one at a time. Throws UserError if the file cannot be written, std::invalid_argument for a tensor that it
// cannot hold.
DDPRUN_API FileDigest write_safetensors(const std::filesystem::path& file, const TensorDict& tensors);

// Reads all tensors to the CPU. Throws UserError naming the file and the flaw if it is not a whole and valid file.
DDPRUN_API TensorDict read_safetensors(const std::filesystem::path& file);

// Where a tensor lies in a file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;                   // as the file has it: "F32", or one that LibTorch does not know
  std::optional<at::ScalarType> type;  // nothing for a dtype that is not among those of dtype_name()
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes of the file; they fit the shape and the type, where that is known
};

// How a file begins, and where each tensor lies in it.
struct SafetensorsLayout {
  std::string beginning;                  // the header's length, and the header
  std::vector<SafetensorsEntry> entries;  // in the order of the file, without a gap

  uint64_t size() const { return entries.empty() ? beginning.size() : entries.back().end; }  // bytes of the whole file
};

// Lays out a file of these tensors, each under another name, as write_safetensors() would: their places are ignored.
// Who has some of them can write those alone. Throws std::invalid_argument for a tensor that no file can hold.
DDPRUN_API SafetensorsLayout safetensors_layout(std::vector<SafetensorsEntry> tensors);

// Returns a tensor's name and form, without a place. Throws std::invalid_argument as require_storable() does.
DDPRUN_API SafetensorsEntry safetensors_form(const std::string& name, const at::Tensor& tensor);

// Reads where the tensors lie, in the order of their values, and checks that these fill the file without a gap. Throws
// UserError as read_safetensors() does.
DDPRUN_API std::vector<SafetensorsEntry> read_safetensors_header(const std::filesystem::path& file);

// Returns the safetensors name of an element type that a file stores: F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL.
DDPRUN_API std::optional<std::string_view> dtype_name(at::ScalarType dtype);
DDPRUN_API std::optional<at::ScalarType> dtype_from_name(std::string_view name);

// Returns the elements' bytes, or nothing if that is more than an int64_t can hold or an extent is negative.
DDPRUN_API std::optional<int64_t> byte_count(at::IntArrayRef shape, at::ScalarType dtype);

// Throws std::invalid_argument naming the tensor if no file can store it: undefined, sparse, quantized, another dtype.
DDPRUN_API void require_storable(const std::string& name, const at::Tensor& tensor);

// Returns the tensor on the CPU, detached, dense and alone in its storage, so that writing a slice does not write all
// that it was cut from. Copies only if needed. Keeps strides (channels last).
DDPRUN_API at::Tensor to_dense_host(const at::Tensor& tensor);

}  // namespace ddprun
