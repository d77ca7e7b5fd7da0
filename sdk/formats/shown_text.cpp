// SPDX-License-Identifier: MIT
#include "shown_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ddprun {

// Covers the control characters of ASCII and of ISO 8859-1, which UTF-8 writes as C2 and the byte.
std::string shown(std::string_view text, std::string_view kept) {
  std::string result;
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    const bool is_c1 = code >= 0x80 && code < 0xA0 && !result.empty() && result.back() == '\xC2';
    const bool is_control = code < 0x20 || code == 0x7F || is_c1;
    if (is_c1) result.pop_back();
    result += is_control && kept.find(byte) == kept.npos ? '?' : byte;
  }
  return result;
}

size_t utf8_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; };
  return std::ranges::all_of(text.substr(1, length - 1), continues) ? length : 0;
}

std::string to_utf8(const std::string& text) {
  using nlohmann::json;
  if (std::ranges::all_of(text, [](unsigned char byte) { return byte < 0x80; })) return text;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace ddprun
