// SPDX-License-Identifier: MIT
#include "image_file.h"

#include "exif.h"
#include "jpeg_image.h"
#include "png_image.h"
#include "webp_image.h"

#include <ddprun/error.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ddprun::images {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File open(const Picture& picture) {
  if (picture.shard) {
    picture.require_unchanged();
    if (picture.size == 0) throw std::runtime_error("is empty");
    auto* bytes = const_cast<uint8_t*>(picture.shard->bytes.get() + picture.begin);  // only read
    return {::fmemopen(bytes, picture.size, "rb"), std::fclose};
  }
  File file(std::fopen(picture.file.c_str(), "rbe"), std::fclose);
  if (!file) throw std::runtime_error(std::string("cannot be opened: ") + std::strerror(errno));
  return file;
}

enum class Kind { kPng, kJpeg, kWebP };

bool is_text(std::string_view start) {
  return std::ranges::all_of(start, [](unsigned char c) { return c >= ' ' || (c >= '\t' && c <= '\r'); });
}

// Returns what a file is that is no picture that we read.
std::string name_of(std::string_view start) {
  struct Known {
    size_t at;
    std::string_view bytes;
    const char* name;
  };
  static constexpr std::array kKnown{
      Known{0, "GIF8", "a GIF"},        Known{0, "BM", "a BMP"},        Known{0, {"II*\0", 4}, "a TIFF"},
      Known{0, {"MM\0*", 4}, "a TIFF"}, Known{4, "ftypheic", "a HEIF"}, Known{4, "ftypmif1", "a HEIF"},
      Known{4, "ftypavif", "an AVIF"},  Known{0, "%PDF", "a PDF"},      Known{0, "PK\3\4", "a zip archive"}};
  for (const auto& known : kKnown) {
    if (start.size() > known.at && start.substr(known.at).starts_with(known.bytes)) return known.name;
  }
  return is_text(start) ? "a text file" : "none of these";
}

Kind kind_of(std::FILE* file) {
  std::array<char, 64> bytes{};
  const auto got = std::fread(bytes.data(), 1, bytes.size(), file);
  std::rewind(file);
  const std::string_view start(bytes.data(), got);
  if (start.starts_with("\x89PNG\r\n\x1a\n")) return Kind::kPng;
  if (start.starts_with("\xff\xd8\xff")) return Kind::kJpeg;
  if (start.starts_with("RIFF") && start.size() >= 12 && start.substr(8).starts_with("WEBP")) return Kind::kWebP;
  if (got == 0) throw std::runtime_error("is empty or not a file");
  throw std::runtime_error("is " + name_of(start) + ", expected PNG, JPEG or WebP");
}

std::unique_ptr<Decoder> decoder_of(Kind kind, std::FILE* file) {
  switch (kind) {
    case Kind::kPng: return open_png(file);
    case Kind::kJpeg: return open_jpeg(file);
    case Kind::kWebP: return open_webp(file);
  }
  throw std::logic_error("a kind of picture");
}

// Reads the header and checks the size that it claims.
Header header_of(Decoder& decoder) {
  const auto header = decoder.header();
  const auto& [height, width] = header.size;
  if (height <= kMostSide && width <= kMostSide && height * width <= kMostPixels) return header;
  throw std::runtime_error("claims " + std::to_string(width) + " x " + std::to_string(height) + " pixels, at most " +
                           std::to_string(kMostPixels) + " are decoded");
}

Box whole(const Size& size) { return {0, 0, size}; }

// Checks the size, which resizing relies on.
Pixels checked(Pixels pixels, int64_t channels) {
  const int64_t expected = pixels.size.height * pixels.size.width * channels;
  const bool fits = pixels.channels == channels && static_cast<int64_t>(pixels.bytes.size()) == expected;
  if (fits && expected > 0) return pixels;
  throw std::logic_error("decoded " + std::to_string(pixels.bytes.size()) + " bytes of " +
                         std::to_string(pixels.channels) + " channels, expected " + std::to_string(expected) + " of " +
                         std::to_string(channels));
}

// Returns whether the file ends as an intact one does; others may be intact too, and have something after their end.
bool ends_well(Kind kind, std::FILE* file) {
  constexpr long kEnd = 8;
  std::array<char, kEnd> bytes{};
  if (kind == Kind::kWebP || std::fseek(file, -kEnd, SEEK_END) != 0) return false;
  const std::string_view end(bytes.data(), std::fread(bytes.data(), 1, bytes.size(), file));
  return kind == Kind::kJpeg ? end.ends_with("\xff\xd9") : end == "IEND\xae\x42\x60\x82";
}

}  // namespace

Size read_size(const Picture& picture, bool turn) try {
  const auto file = open(picture);
  const auto header = header_of(*decoder_of(kind_of(file.get()), file.get()));
  return turn ? turned(header.size, header.orientation) : header.size;
} catch (const std::runtime_error& error) {
  throw UserError(picture.text() + ": " + error.what());
}

void check_file(const Picture& picture) try {
  const auto file = open(picture);
  const auto kind = kind_of(file.get());
  const auto header = header_of(*decoder_of(kind, file.get()));
  if (ends_well(kind, file.get())) return;
  std::rewind(file.get());
  const auto decoder = decoder_of(kind, file.get());
  decoder->header();
  decoder->pixels(3, {.box = whole(header.size)});
} catch (const std::runtime_error& error) {
  throw UserError(picture.text() + ": " + error.what());
}

Pixels decode(const Picture& picture, int64_t channels, bool turn, const Choose& choose) try {
  const auto file = open(picture);
  const auto decoder = decoder_of(kind_of(file.get()), file.get());
  const auto header = header_of(*decoder);
  const int orientation = turn ? header.orientation : 1;
  const auto size = turned(header.size, orientation);
  auto cut = choose ? choose(size) : Cut{.box = whole(size)};
  cut.box = stored_box(cut.box, header.size, orientation);
  return turned(checked(decoder->pixels(channels, cut), channels), orientation);
} catch (const std::runtime_error& error) {
  throw UserError(picture.text() + ": " + error.what());
}

}  // namespace ddprun::images
