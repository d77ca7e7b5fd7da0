// SPDX-License-Identifier: MIT
// What a .safetensors file says of itself: 8 bytes with the header's length, the header in JSON, then the values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

inline constexpr uint64_t kSafetensorsLengthBytes = 8;
inline constexpr uint64_t kLargestSafetensorsHeader = 100'000'000;   // the format's own limit
inline constexpr const char* kSafetensorsMetadata = "__metadata__";  // a key of the header that is no tensor

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as the file has it: "F32", or a type that we do not know
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // its values' place, counted from the end of the header
};

// The header's length, of a file of this size that begins with these bytes (8, where it has them). Throws
// std::runtime_error for a length that is none.
uint64_t safetensors_header_length(std::string_view first, uint64_t file_bytes);

// The tensors in the order of their values, which fill `data_bytes` without a hole. Whether a shape and a type make so
// many bytes is left to whoever knows the type. Throws std::runtime_error with the tensor and what is wrong.
std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view header, uint64_t data_bytes);

}  // namespace ddprun
