// SPDX-License-Identifier: MIT
#include "exif.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <string_view>
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

  size_t size() const { return bytes_.size(); }
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

// The types of a TIFF's values.
enum Type : uint64_t { kRational = 5, kSignedRational = 10, kFloat = 11, kDouble = 12, kLast = 16 };

// Returns the bytes of one value; 0 for a type that there is not.
size_t bytes_of(uint64_t type) {
  constexpr std::array<size_t, kLast + 1> kBytes{0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};
  return type <= kLast ? kBytes[type] : 0;
}

// Returns a value of an orientation's tag; bytes and texts are none.
double value_at(const Tiff& tiff, size_t at, uint64_t type) {
  constexpr std::array<uint64_t, 4> kNoNumbers{1, 2, 7};
  if (std::ranges::find(kNoNumbers, type) != kNoNumbers.end()) return 0;
  if (type == kFloat) return std::bit_cast<float>(static_cast<uint32_t>(tiff.number(at, 4)));
  if (type == kDouble) return std::bit_cast<double>(tiff.number(at, 8));
  if (type == kRational || type == kSignedRational)
    return static_cast<double>(tiff.number(at, 4)) / static_cast<double>(tiff.number(at + 4, 4));
  return static_cast<double>(tiff.number(at, bytes_of(type)));
}

// Returns what the first entry says that can be read; nothing where there is none, and 0 if it is no number.
std::optional<double> orientation_in(const Tiff& tiff) {
  constexpr uint64_t kMagic = 42, kOrientation = 0x112;
  constexpr size_t kEntry = 12, kInPlace = 4;
  if (tiff.number(2, 2) != kMagic) return std::nullopt;
  const size_t directory = tiff.number(4, 4), entries = tiff.number(directory, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntry;
    if (entry + kEntry > tiff.size()) return std::nullopt;
    const auto type = tiff.number(entry + 2, 2), bytes = tiff.number(entry + 4, 4) * bytes_of(type);
    if (tiff.number(entry, 2) != kOrientation || bytes == 0) continue;
    const size_t place = bytes > kInPlace ? tiff.number(entry + 8, 4) : entry + 8;
    if (bytes <= tiff.size() && place <= tiff.size() - bytes) return value_at(tiff, place, type);
  }
  return std::nullopt;
}

std::optional<double> orientation_in_exif(std::string_view exif) {
  constexpr std::string_view kName("Exif\0\0", 6);
  for (int times = 0; times < 2 && exif.starts_with(kName); ++times) exif.remove_prefix(kName.size());
  return orientation_in(Tiff(exif));
}

// An attribute, tiff:Orientation="6", or an element, <tiff:Orientation>6<.
std::optional<double> orientation_in_xmp(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = xmp.find(kName); at != xmp.npos; at = xmp.find(kName, at + 1)) {
    auto rest = xmp.substr(at + kName.size());
    if (!rest.starts_with("=\"") && !rest.starts_with('>')) continue;
    rest.remove_prefix(rest[0] == '=' ? 2 : 1);
    if (!rest.empty() && '0' <= rest[0] && rest[0] <= '9') return rest[0] - '0';
  }
  return std::nullopt;
}

}  // namespace

int orientation_of(const Metadata& data) {
  auto found = data.exif ? orientation_in_exif(*data.exif) : std::nullopt;
  if (!found) found = orientation_in_xmp(data.xmp);
  const double value = found.value_or(1);
  return value >= 1 && value <= 8 && value == std::floor(value) ? static_cast<int>(value) : 1;
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
