// SPDX-License-Identifier: MIT
#include "utf8.h"

#include <ddprun/error.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace ddprun::text {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

uint8_t byte_at(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

// Returns the length of a character that begins with this byte, or 0 if none does.
size_t length_by(uint8_t first) {
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4)
    return 0;  // a continuation byte, or the start of an overlong form or of no code point
  return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

bool is_character(char32_t code_point, size_t length) {
  const bool shorter = (length == 3 && code_point < 0x800) || (length == 4 && code_point < 0x10000);
  const bool surrogate = code_point >= 0xD800 && code_point < 0xE000;
  return !shorter && !surrogate && code_point < kCodePoints;
}

// Reads the character at `at` and moves on; returns false if there is none.
bool take(std::string_view bytes, size_t& at, char32_t& code_point) {
  const uint8_t first = byte_at(bytes, at);
  const size_t length = length_by(first);
  if (length == 0 || at + length > bytes.size()) return false;
  code_point = length == 1 ? first : first & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const uint8_t later = byte_at(bytes, at + i);
    if (later >> 6 != 0b10) return false;
    code_point = code_point << 6 | (later & 0x3F);
  }
  if (!is_character(code_point, length)) return false;
  at += length;
  return true;
}

[[noreturn]] void refuse(std::string_view bytes, size_t at, const std::string& place) {
  char byte[8];
  std::snprintf(byte, sizeof byte, "0x%02X", byte_at(bytes, at));
  const auto line = 1 + std::count(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  const bool wide = bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF");
  throw UserError(place + ": byte " + std::to_string(at) + ", " + byte + " in line " + std::to_string(line) +
                  ", is not UTF-8; expected a UTF-8 text: iconv -f " + (wide ? "UTF-16" : "LATIN1") +
                  " -t UTF-8 makes one of a text in another encoding");
}

}  // namespace

std::u32string decode_utf8(std::string_view bytes, const std::string& place) {
  std::u32string text;
  text.reserve(bytes.size());
  size_t at = bytes.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  while (at < bytes.size()) {
    char32_t code_point = 0;
    if (!take(bytes, at, code_point)) refuse(bytes, at, place);
    text.push_back(code_point);
  }
  return text;
}

std::string encode_utf8(char32_t code_point) {
  const auto later = [&](int shift) { return static_cast<char>(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  if (code_point < 0x800) return {static_cast<char>(0xC0 | code_point >> 6), later(0)};
  if (code_point < 0x10000) return {static_cast<char>(0xE0 | code_point >> 12), later(6), later(0)};
  return {static_cast<char>(0xF0 | code_point >> 18), later(12), later(6), later(0)};
}

}  // namespace ddprun::text
