// SPDX-License-Identifier: MIT
#include "report/base64.h"

#include <cstdint>

namespace ddprun {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = i; j < i + 3; ++j) group = group << 8 | (j < bytes.size() ? static_cast<uint8_t>(bytes[j]) : 0);
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[group >> shift & 63];
  }
  if (const auto missing = (3 - bytes.size() % 3) % 3; missing > 0)
    text.replace(text.size() - missing, missing, missing, '=');
  return text;
}

}  // namespace ddprun
