// SPDX-License-Identifier: MIT
#include "png_metadata.h"

#include <zlib.h>

#include <array>
#include <charconv>
#include <map>
#include <string>
#include <string_view>

namespace ddprun::images {
namespace {

constexpr size_t kMostText = 1 << 20;  // bytes of a text, once it is unpacked; what is longer is no orientation's
constexpr std::string_view kExif = "exif", kHexExif = "Raw profile type exif", kXmp = "XML:com.adobe.xmp";

// Returns nothing if it is damaged or too long.
std::optional<std::string> unpacked(std::string_view packed) {
  std::string text(kMostText, '\0');
  uLongf bytes = text.size();
  const auto* from = reinterpret_cast<const Bytef*>(packed.data());
  if (::uncompress(reinterpret_cast<Bytef*>(text.data()), &bytes, from, packed.size()) != Z_OK) return std::nullopt;
  text.resize(bytes);
  return text;
}

// Takes the text up to the next zero away, and that too. Returns nothing if there is no zero.
std::optional<std::string_view> cut_word(std::string_view& rest) {
  const auto zero = rest.find('\0');
  if (zero == rest.npos) return std::nullopt;
  const auto word = rest.substr(0, zero);
  rest.remove_prefix(zero + 1);
  return word;
}

// Adds the text of a chunk to those that count.
void take_text(std::string_view chunk, std::string_view rest, std::map<std::string, std::string>& texts) {
  const auto name = cut_word(rest);
  if (!name || (*name != kExif && *name != kHexExif && *name != kXmp)) return;
  bool is_packed = chunk == "zTXt";
  if (is_packed && (rest.empty() || rest[0] != 0)) return;
  if (is_packed) rest.remove_prefix(1);
  if (chunk == "iTXt") {
    if (rest.size() < 2 || (rest[0] != 0 && rest[1] != 0)) return;
    is_packed = rest[0] != 0;
    rest.remove_prefix(2);
    if (!cut_word(rest) || !cut_word(rest)) return;  // the language, and the name in it
  }
  const auto text = is_packed ? unpacked(rest) : std::string(rest);
  if (text) texts[std::string(*name)] = *text;
}

// Returns the bytes that ImageMagick writes as hexadecimal digits in lines, after three lines of its own.
std::optional<std::string> bytes_of_hex(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const auto end = text.find('\n');
    if (end == text.npos) return std::nullopt;
    text.remove_prefix(end + 1);
  }
  std::string digits, bytes;
  for (const char c : text)
    if (c != '\n' && c != ' ') digits += c;
  for (size_t at = 0; at + 1 < digits.size(); at += 2) {
    unsigned byte = 0;
    if (std::from_chars(&digits[at], &digits[at] + 2, byte, 16).ptr != &digits[at] + 2) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

// A chunk's head: four bytes of its length, four of its name.
struct Head {
  std::array<unsigned char, 8> bytes{};

  bool read(std::FILE* file) { return std::fread(bytes.data(), 1, bytes.size(), file) == bytes.size(); }
  std::string_view name() const { return {reinterpret_cast<const char*>(bytes.data()) + 4, 4}; }
  uint32_t length() const {
    return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
           static_cast<uint32_t>(bytes[2]) << 8 | bytes[3];
  }
};

}  // namespace

Metadata png_metadata(std::FILE* file) {
  constexpr long kSignature = 8, kSum = 4;
  const long position = std::ftell(file);
  Metadata data;
  std::map<std::string, std::string> texts;
  long at = kSignature;
  for (Head head; std::fseek(file, at, SEEK_SET) == 0 && head.read(file) && head.name() != "IEND";) {
    const auto name = head.name();
    const bool is_text = name == "tEXt" || name == "zTXt" || name == "iTXt";
    if ((is_text || name == "eXIf") && head.length() <= kMostText) {
      std::string content(head.length(), '\0');
      if (std::fread(content.data(), 1, content.size(), file) != content.size()) break;
      is_text ? take_text(name, content, texts) : static_cast<void>(data.exif = content);
    }
    at += 8 + static_cast<long>(head.length()) + kSum;
  }
  std::fseek(file, position, SEEK_SET);
  if (!data.exif && texts.contains(std::string(kExif))) data.exif = texts[std::string(kExif)];
  if (!data.exif && texts.contains(std::string(kHexExif))) data.exif = bytes_of_hex(texts[std::string(kHexExif)]);
  data.xmp = texts[std::string(kXmp)];
  return data;
}

}  // namespace ddprun::images
