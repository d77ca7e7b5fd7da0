// SPDX-License-Identifier: MIT
#include "picture_size.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace ddprun::images {
namespace {

int64_t number_at(const std::string& bytes, size_t at, size_t count) {
  int64_t number = 0;
  for (size_t i = 0; i < count; ++i) number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

bool read(std::ifstream& stream, std::string& bytes, size_t count) {
  bytes.resize(count);
  return static_cast<bool>(stream.read(bytes.data(), static_cast<std::streamsize>(count)));
}

// Follows a JPEG's segments to its frame header: FF C0 to FF CF, without C4, C8 and CC (ITU T.81, B.1.1.3).
std::optional<int64_t> jpeg_side(std::ifstream& stream) {
  stream.seekg(2);
  for (std::string bytes; read(stream, bytes, 4) && bytes[0] == '\xFF';) {
    const auto marker = number_at(bytes, 1, 1), length = number_at(bytes, 2, 2);
    const bool frame = marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (frame)
      return read(stream, bytes, 5) ? std::optional(std::min(number_at(bytes, 1, 2), number_at(bytes, 3, 2)))
                                    : std::nullopt;
    stream.seekg(length - 2, std::ios::cur);
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> shorter_side(const std::filesystem::path& picture) {
  std::ifstream stream(picture, std::ios::binary);
  std::string head;
  constexpr size_t kHead = 24;  // of a PNG: signature, length and type of the first chunk, width, height
  if (!read(stream, head, kHead)) return std::nullopt;
  if (head.starts_with("\x89PNG\r\n\x1a\n")) return std::min(number_at(head, 16, 4), number_at(head, 20, 4));
  if (head.starts_with("\xFF\xD8")) return jpeg_side(stream);
  return std::nullopt;
}

std::optional<int64_t> median_shorter_side(const std::vector<std::filesystem::path>& pictures) {
  std::vector<int64_t> sides;
  for (const auto& picture : pictures)
    if (const auto side = shorter_side(picture); side && *side > 0) sides.push_back(*side);
  if (sides.empty()) return std::nullopt;
  const auto middle = sides.begin() + static_cast<std::ptrdiff_t>(sides.size() / 2);
  std::ranges::nth_element(sides, middle);
  return *middle;
}

}  // namespace ddprun::images
