// SPDX-License-Identifier: MIT
// 64-bit digests of tensors (weights/tensor_digest.h) as files and messages have them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

// Return a digest as 16 hexadecimal digits, and back; throws std::invalid_argument for other text.
std::string digest_text(uint64_t digest);
uint64_t digest_from(std::string_view text);

}  // namespace ddprun
