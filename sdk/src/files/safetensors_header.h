// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/safetensors.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace ddprun {

inline constexpr uint64_t kSafetensorsLengthBytes = 8;
inline constexpr uint64_t kLargestSafetensorsHeader = 100'000'000;   // the format's own limit
inline constexpr size_t kMostNameBytes = 4096;                       // of a tensor: patterns are matched with it
inline constexpr const char* kSafetensorsMetadata = "__metadata__";  // a key of the header that is not a tensor

// Returns the header's length, given the size of the file and its first bytes (8 if it has them). Throws
// std::runtime_error if the length is invalid.
uint64_t safetensors_header_length(std::string_view first, uint64_t file_bytes);

// Returns the tensors in the order of their values, which fill the file from the end of the header, `text`, without a
// gap. Throws std::runtime_error with the tensor and what is wrong.
std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view text, uint64_t file_bytes);

}  // namespace ddprun
