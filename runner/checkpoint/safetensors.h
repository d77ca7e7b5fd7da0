// SPDX-License-Identifier: MIT
// The safetensors format: weights only, nothing executable; Hugging Face's library and many others read it.
//
//   8 bytes    N, the header's length, little-endian
//   N bytes    JSON {"conv1.weight": {"dtype": "F32", "shape": [20, 1, 5, 5], "data_offsets": [0, 2000]}, ...},
//              padded with spaces
//   the rest   the elements of each tensor, row-major, one after the other without a gap
#pragma once

#include "base/durable_file.h"
#include "checkpoint/tensor_dict.h"

#include <filesystem>

namespace ddprun {

// Writes the tensors one after the other. Only those on a GPU or with strides are copied, one at a time. Throws
// UserError if the file cannot be written, std::invalid_argument for a tensor that it cannot hold.
FileDigest write_safetensors(const std::filesystem::path& file, const TensorDict& tensors);

// Reads all tensors to the CPU. Throws UserError naming the file and the flaw if it is not a whole and valid file.
TensorDict read_safetensors(const std::filesystem::path& file);

}  // namespace ddprun
