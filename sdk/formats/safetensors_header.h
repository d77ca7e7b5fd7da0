// SPDX-License-Identifier: MIT
// The header of a .safetensors file: 8 bytes with the header's length, the header in JSON, then the values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

inline constexpr uint64_t kSafetensorsLengthBytes = 8;
inline constexpr uint64_t kLargestSafetensorsHeader = 100'000'000;   // the format's own limit
inline constexpr const char* kSafetensorsMetadata = "__metadata__";  // a key of the header that is not a tensor

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as the file has it: "F32", or a type that we do not know
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // where its values lie, counted from the end of the header
};

// Returns the header's length, given the size of the file and its first bytes (8 if it has them). Throws
// std::runtime_error if the length is invalid.
uint64_t safetensors_header_length(std::string_view first, uint64_t file_bytes);

// Returns the tensors in the order of their values, which fill `data_bytes` without a gap. Does not check that shape
// and type give that many bytes; the caller does. Throws std::runtime_error with the tensor and what is wrong.
std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view header, uint64_t data_bytes);

}  // namespace ddprun
