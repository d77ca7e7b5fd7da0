// SPDX-License-Identifier: MIT
#include "bmp_image.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun::images {
namespace {

using Bytes = std::vector<uint8_t>;
using Colour = std::array<uint8_t, 3>;  // red, green, blue

enum Compression : uint32_t { kRaw, kRle8, kRle4, kBitfields };
constexpr size_t kFileHeader = 14, kCoreHeader = 12;

[[noreturn]] void refuse_bmp(const std::string& what) { throw std::runtime_error("is a BMP " + what); }

// Returns a little-endian number of 2 or 4 bytes.
uint32_t number(const Bytes& bytes, size_t at, size_t size) {
  if (at + size > bytes.size()) refuse_bmp("that is cut short");
  uint32_t value = 0;
  for (size_t i = size; i-- > 0;) value = value << 8 | bytes[at + i];
  return value;
}

struct BmpHeader {
  Size size;
  bool from_top = false;  // most begin with the lowest row
  uint32_t bits = 0, compression = kRaw;
  std::array<uint32_t, 3> masks{};  // of red, green, blue in a pixel of 16 or 32 bits
  size_t palette = 0, colours = 0, colour_bytes = 4;
  size_t data = 0;  // where the pixels begin
};

void read_masks(const Bytes& bytes, BmpHeader& header) {
  for (size_t i = 0; i < 3; ++i) header.masks[i] = number(bytes, kFileHeader + 40 + 4 * i, 4);
  const auto is_one_of = [&](std::initializer_list<std::array<uint32_t, 3>> known) {
    return std::ranges::find(known, header.masks) != known.end();
  };
  const bool known = header.bits == 16   ? is_one_of({{0xF800, 0x7E0, 0x1F}, {0x7C00, 0x3E0, 0x1F}})
                     : header.bits == 24 ? is_one_of({{0xFF0000, 0xFF00, 0xFF}})
                                         : header.bits == 32 && is_one_of({{0xFF0000, 0xFF00, 0xFF},
                                                                           {0xFF000000, 0xFF0000, 0xFF00},
                                                                           {0xFF000000, 0xFF00, 0xFF},
                                                                           {0xFF, 0xFF00, 0xFF0000},
                                                                           {0, 0, 0}});
  if (!known) refuse_bmp("with an unknown layout of its bits");
  if (header.masks == std::array<uint32_t, 3>{}) header.masks = {0xFF0000, 0xFF00, 0xFF};
}

BmpHeader read_header(const Bytes& bytes) {
  BmpHeader header;
  const size_t size = number(bytes, kFileHeader, 4);
  if (size == kCoreHeader) {
    header.size = {number(bytes, 20, 2), number(bytes, 18, 2)};
    header.bits = number(bytes, 24, 2);
    header.colour_bytes = 3;
  } else {
    header.from_top = number(bytes, 25, 1) == 0xFF;
    const auto height = number(bytes, 22, 4);
    header.size = {header.from_top ? int64_t{UINT32_MAX} + 1 - height : height, number(bytes, 18, 4)};
    header.bits = number(bytes, 28, 2);
    header.compression = number(bytes, 30, 4);
    header.colours = number(bytes, 46, 4);
  }
  const auto bits = header.bits, compression = header.compression;
  if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32)
    refuse_bmp("of " + std::to_string(bits) + " bits a pixel");
  if (compression > kBitfields || (compression == kRle8 && bits != 8) || (compression == kRle4 && bits != 4) ||
      (compression == kBitfields && bits < 16))
    refuse_bmp("of a compression that is not read, " + std::to_string(compression));
  header.masks =
      bits == 16 ? std::array<uint32_t, 3>{0x7C00, 0x3E0, 0x1F} : std::array<uint32_t, 3>{0xFF0000, 0xFF00, 0xFF};
  if (compression == kBitfields) read_masks(bytes, header);
  header.palette = kFileHeader + size;
  if (bits <= 8 && header.colours == 0) header.colours = size_t{1} << bits;
  if (header.colours > 65536) refuse_bmp("of " + std::to_string(header.colours) + " colours");
  header.data = number(bytes, 10, 4);
  const size_t after_palette = header.palette + (bits <= 8 ? header.colours * header.colour_bytes : 0);
  if (header.data == 0 || (bits <= 8 && header.data == header.palette)) header.data = after_palette;
  return header;
}

// Reads the runs of pixels of a compressed bitmap.
class Runs {
 public:
  Runs(const Bytes& bytes, const BmpHeader& header) : bytes_(bytes), header_(header), at_(header.data) {
    all_ = static_cast<size_t>(header.size.height * header.size.width);
    width_ = static_cast<size_t>(header.size.width);
  }

  // Returns the number of a colour for each pixel, the lowest row first.
  Bytes read() {
    while (pixels_.size() < all_) {
      const auto count = next(), value = next();
      if (!count || !value) break;
      if (*count > 0)
        repeat(*count, *value);
      else if (!obey(*value))
        break;
    }
    if (pixels_.size() < all_) refuse_bmp("that is cut short");
    return std::move(pixels_);
  }

 private:
  bool is_rle4() const { return header_.compression == kRle4; }
  std::optional<uint8_t> next() { return at_ < bytes_.size() ? std::optional(bytes_[at_++]) : std::nullopt; }
  void skip(size_t pixels) { pixels_.resize(pixels_.size() + std::min(pixels, all_ - pixels_.size())); }

  void put(uint8_t value, size_t index) {
    if (pixels_.size() == all_) return;
    pixels_.push_back(!is_rle4() ? value : index % 2 == 0 ? value >> 4 : value & 15);
  }

  // A run ends with its row.
  void repeat(size_t count, uint8_t value) {
    const auto room = width_ - std::min(column_, width_);
    count = std::min(count, room);
    for (size_t i = 0; i < count; ++i) put(value, i);
    column_ += count;
  }

  // Returns false at the end of the picture.
  bool obey(uint8_t code) {
    enum Code : uint8_t { kEndOfRow, kEnd, kMove };
    if (code == kEnd) return false;
    if (code == kEndOfRow) {
      if (pixels_.size() % width_ != 0) skip(width_ - pixels_.size() % width_);
      column_ = 0;
      return true;
    }
    if (code != kMove) return copy(code);
    const auto right = next(), up = next();
    if (!right || !up) return false;
    skip(*right + *up * width_);
    column_ = pixels_.size() % width_;
    return true;
  }

  bool copy(size_t count) {
    const auto here = std::min(count, all_ - pixels_.size());
    uint8_t value = 0;
    for (size_t i = 0; i < here; ++i) {
      if (!is_rle4() || i % 2 == 0) {
        const auto byte = next();
        if (!byte) return false;
        value = *byte;
      }
      put(value, i);
    }
    column_ += count;
    at_ += at_ % 2;  // to a whole word
    return true;
  }

  const Bytes& bytes_;
  const BmpHeader& header_;
  size_t at_, all_ = 0, width_ = 0, column_ = 0;
  Bytes pixels_;
};

class Bmp final : public Decoder {
 public:
  explicit Bmp(std::FILE* file) : file_(file) {}

  Header header() override {
    constexpr size_t kLongest = kFileHeader + 124;
    bytes_ = read(kLongest);
    header_ = read_header(bytes_);
    if (header_.size.height < 1 || header_.size.width < 1) refuse_bmp("without pixels");
    return {.size = header_.size};
  }

  int64_t decoded_pixels(const Cut&) const override { return header_.size.height * header_.size.width; }

  Pixels pixels(int64_t channels, const Cut& cut) override {
    for (auto part = read(kPart); !part.empty(); part = read(kPart))
      bytes_.insert(bytes_.end(), part.begin(), part.end());
    if (header_.bits <= 8) read_palette();
    const bool is_rle = header_.compression == kRle8 || header_.compression == kRle4;
    const auto numbers = is_rle ? Runs(bytes_, header_).read() : Bytes();
    const auto [height, width] = header_.size;
    Pixels all{.size = header_.size, .channels = 3, .bytes = Bytes(static_cast<size_t>(3 * height * width))};
    auto* out = all.bytes.data();
    for (int64_t y = 0; y < height; ++y) {
      const auto row = static_cast<size_t>(header_.from_top ? y : height - 1 - y);
      for (size_t x = 0; x < static_cast<size_t>(width); ++x) {
        const auto colour =
            is_rle ? colour_of(numbers[row * static_cast<size_t>(width) + x]) : colour_at(row_begin(row), x);
        out = std::ranges::copy(colour, out).out;
      }
    }
    return with_channels(part_of(all, cut.box), channels);
  }

 private:
  static constexpr size_t kPart = 1 << 16;

  Bytes read(size_t most) {
    Bytes bytes(most);
    bytes.resize(std::fread(bytes.data(), 1, most, file_));
    return bytes;
  }

  void read_palette() {
    palette_.assign(256, Colour{});
    for (size_t i = 0; i < std::min(header_.colours, palette_.size()); ++i) {
      const size_t at = header_.palette + i * header_.colour_bytes;
      if (at + 3 <= bytes_.size()) palette_[i] = {bytes_[at + 2], bytes_[at + 1], bytes_[at]};
    }
  }

  // Rows begin at multiples of four bytes.
  size_t row_begin(size_t row) const {
    const auto stride = (static_cast<size_t>(header_.size.width) * header_.bits + 31) / 32 * 4;
    const auto begin = header_.data + row * stride;
    if (begin + (static_cast<size_t>(header_.size.width) * header_.bits + 7) / 8 > bytes_.size())
      refuse_bmp("that is cut short");
    return begin;
  }

  Colour colour_of(uint8_t index) const { return palette_[index]; }

  Colour colour_at(size_t row, size_t x) const {
    const auto bits = header_.bits;
    if (bits <= 8) {
      const auto byte = bytes_[row + x * bits / 8];
      return colour_of(static_cast<uint8_t>(byte >> (8 - bits - x * bits % 8) & ((1U << bits) - 1)));
    }
    uint32_t pixel = 0;
    for (size_t i = bits / 8; i-- > 0;) pixel = pixel << 8 | bytes_[row + x * (bits / 8) + i];
    Colour colour;
    for (size_t i = 0; i < 3; ++i) {
      const auto mask = header_.masks[i], most = mask / (mask & -mask);
      colour[i] = static_cast<uint8_t>((pixel & mask) / (mask & -mask) * 255 / most);
    }
    return colour;
  }

  std::FILE* file_;
  Bytes bytes_;
  BmpHeader header_;
  std::vector<Colour> palette_;
};

}  // namespace

std::unique_ptr<Decoder> open_bmp(std::FILE* file) { return std::make_unique<Bmp>(file); }

}  // namespace ddprun::images
