// SPDX-License-Identifier: MIT
#include "exif.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace ddprun::images {
namespace {

// A stored picture is first mirrored, then its rows become columns.
struct Turn {
  bool flip_rows, flip_columns, transpose;
};

Turn turn_of(int orientation) {
  switch (orientation) {
    case 2: return {false, true, false};
    case 3: return {true, true, false};
    case 4: return {true, false, false};
    case 5: return {false, false, true};
    case 6: return {true, false, true};
    case 7: return {true, true, true};
    case 8: return {false, true, true};
    default: return {false, false, false};
  }
}

// Numbers of a TIFF file in its byte order; 0 beyond its end.
class Tiff {
 public:
  explicit Tiff(std::string_view bytes) : bytes_(bytes), little_(bytes.starts_with('I')) {}

  uint64_t number(size_t at, size_t bytes) const {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | byte(little_ ? at + bytes - 1 - i : at + i);
    return value;
  }

 private:
  uint8_t byte(size_t at) const { return at < bytes_.size() ? static_cast<uint8_t>(bytes_[at]) : 0; }

  std::string_view bytes_;
  bool little_;
};

}  // namespace

// Exif has the orientation as a SHORT; some programs write a LONG.
int orientation_of(std::string_view exif) {
  constexpr std::string_view kName("Exif\0\0", 6);
  constexpr uint64_t kMagic = 42, kOrientation = 0x112, kShort = 3, kLong = 4;
  constexpr size_t kEntry = 12;
  while (exif.starts_with(kName)) exif.remove_prefix(kName.size());
  const Tiff tiff(exif);
  const size_t directory = tiff.number(4, 4), entries = tiff.number(2, 2) == kMagic ? tiff.number(directory, 2) : 0;
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntry;
    if (entry + kEntry > exif.size()) break;
    const auto type = tiff.number(entry + 2, 2);
    if (tiff.number(entry, 2) != kOrientation || (type != kShort && type != kLong)) continue;
    const auto value = tiff.number(entry + 8, type == kShort ? 2 : 4);
    return 1 <= value && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Size turned(const Size& size, int orientation) {
  return turn_of(orientation).transpose ? Size{size.width, size.height} : size;
}

Box stored_box(const Box& box, const Size& stored, int orientation) {
  const auto turn = turn_of(orientation);
  auto result = box;
  if (turn.transpose) result = {box.left, box.top, {box.size.width, box.size.height}};
  if (turn.flip_rows) result.top = stored.height - result.top - result.size.height;
  if (turn.flip_columns) result.left = stored.width - result.left - result.size.width;
  return result;
}

Pixels turned(Pixels stored, int orientation) {
  const auto turn = turn_of(orientation);
  if (orientation == 1) return stored;
  const auto [height, width] = stored.size;
  Pixels result{.size = turned(stored.size, orientation), .channels = stored.channels};
  result.bytes.resize(stored.bytes.size());
  auto* out = result.bytes.data();
  for (int64_t y = 0; y < result.size.height; ++y) {
    for (int64_t x = 0; x < result.size.width; ++x) {
      int64_t row = turn.transpose ? x : y, column = turn.transpose ? y : x;
      if (turn.flip_rows) row = height - 1 - row;
      if (turn.flip_columns) column = width - 1 - column;
      out = std::copy_n(&stored.bytes[static_cast<size_t>((row * width + column) * stored.channels)], stored.channels,
                        out);
    }
  }
  return result;
}

}  // namespace ddprun::images
