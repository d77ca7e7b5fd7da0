// SPDX-License-Identifier: MIT
// Reads tensors out of a .safetensors file: 8 bytes with the header's length, the header in JSON, the values.
#pragma once

#include "stored_array.h"

#include <ddprun/files.h>

namespace ddprun::arrays {

// Returns the tensors with these names, in this order. The whole header is checked against the size of the file. Throws
// UserError with the path, what was found and what was expected.
std::vector<StoredArray> read_safetensors(const MappedFile& file, const std::vector<std::string>& names);

}  // namespace ddprun::arrays
