// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace ddprun::fuzz {

// Sets the checksum of each block that could be a member's head.
inline std::string with_sums(std::string_view bytes) {
  constexpr size_t kBlock = 512, kSumAt = 148, kSumBytes = 8;
  std::string tar(bytes);
  for (size_t at = 0; at + kBlock <= tar.size(); at += kBlock) {
    if (tar.compare(at + 257, 5, "ustar") != 0) continue;
    std::fill_n(tar.begin() + static_cast<std::ptrdiff_t>(at + kSumAt), kSumBytes, ' ');
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<uint8_t>(tar[at + i]);
    std::snprintf(&tar[at + kSumAt], kSumBytes, "%06o", sum);
  }
  return tar;
}

}  // namespace ddprun::fuzz
