// SPDX-License-Identifier: MIT
#include "base/digest_text.h"

#include <charconv>
#include <cstddef>
#include <stdexcept>

namespace ddprun {
namespace {

constexpr size_t kDigits = 16;

}  // namespace

std::string digest_text(uint64_t digest) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text(kDigits, '0');
  for (size_t i = kDigits; i-- > 0; digest >>= 4) text[i] = kHex[digest & 15];
  return text;
}

uint64_t digest_from(std::string_view text) {
  uint64_t digest = 0;
  const auto* end = text.data() + text.size();
  if (text.size() != kDigits || std::from_chars(text.data(), end, digest, 16).ptr != end)
    throw std::invalid_argument("\"" + std::string(text) + "\" is no digest");
  return digest;
}

}  // namespace ddprun
