// SPDX-License-Identifier: MIT
#include "image_file.h"

#include "exif.h"
#include "jpeg_image.h"
#include "picture_files.h"
#include "png_image.h"
#include "webp_image.h"

#include <ddprun/error.h>

#include <fcntl.h>
#include <sys/stat.h>

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

// Returns what is no file: opening a pipe would wait for somebody to write into it.
const char* name_of(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a named pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

File open(const Picture& picture) {
  if (picture.shard) {
    picture.require_unchanged();
    if (picture.size == 0) throw std::runtime_error("is empty");
    auto* bytes = const_cast<uint8_t*>(picture.shard->bytes.get() + picture.begin);  // only read
    return {::fmemopen(bytes, picture.size, "rb"), std::fclose};
  }
  const int fd = ::open(picture.file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  File file(fd < 0 ? nullptr : ::fdopen(fd, "rb"), std::fclose);
  struct stat found {};
  if (::stat(picture.file.c_str(), &found) == 0 && !S_ISREG(found.st_mode))
    throw std::runtime_error(std::string("is ") + name_of(found.st_mode) + ", expected a file");
  if (!file) throw std::runtime_error(std::string("cannot be opened: ") + std::strerror(errno));
  return file;
}

PictureKind kind_of(std::FILE* file) {
  std::array<char, 64> bytes{};
  const auto got = std::fread(bytes.data(), 1, bytes.size(), file);
  std::rewind(file);
  if (got == 0) throw std::runtime_error("is empty");
  const auto found = file_kind({bytes.data(), got});
  if (found.kind == PictureKind::kNone || found.kind == PictureKind::kOther)
    throw std::runtime_error(std::string("is ") + found.name + ", expected " + kReadPictures +
                             (found.kind == PictureKind::kOther ? "; convert it (mogrify -format png FILE)" : ""));
  return found.kind;
}

std::unique_ptr<Decoder> decoder_of(PictureKind kind, std::FILE* file) {
  switch (kind) {
    case PictureKind::kPng: return open_png(file);
    case PictureKind::kJpeg: return open_jpeg(file);
    case PictureKind::kWebP: return open_webp(file);
    case PictureKind::kOther:
    case PictureKind::kNone: break;
  }
  throw std::logic_error("a kind of picture");
}

Box whole(const Size& size) { return {0, 0, size}; }

[[noreturn]] void refuse_size(const Size& size, int64_t most) {
  throw std::runtime_error("claims " + std::to_string(size.width) + " x " + std::to_string(size.height) +
                           " pixels, at most " + std::to_string(most) + " are decoded; dataset.max_pixels allows more");
}

// Checks the size that the header claims, and halves a JPEG that is too large, where that is allowed.
void settle(const Decoder& decoder, const Size& size, const Reading& how, Cut& cut) {
  const auto& [height, width] = size;
  if (height > kMostSide || width > kMostSide) refuse_size(size, how.most_pixels);
  if (cut.least_side == 0 && height * width > how.most_pixels) cut.least_side = how.least_side;
  if (decoder.decoded_pixels(cut) > how.most_pixels) refuse_size(size, how.most_pixels);
}

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
bool ends_well(PictureKind kind, std::FILE* file) {
  constexpr long kEnd = 8;
  std::array<char, kEnd> bytes{};
  const bool has_end = kind == PictureKind::kPng || kind == PictureKind::kJpeg;
  if (!has_end || std::fseek(file, -kEnd, SEEK_END) != 0) return false;
  const std::string_view end(bytes.data(), std::fread(bytes.data(), 1, bytes.size(), file));
  return kind == PictureKind::kJpeg ? end.ends_with("\xff\xd9") : end == "IEND\xae\x42\x60\x82";
}

// Decodes the whole of a picture, from the beginning of its file.
void decode_whole(PictureKind kind, std::FILE* file, const Cut& cut) {
  std::rewind(file);
  const auto decoder = decoder_of(kind, file);
  decoder->header();
  decoder->pixels(3, cut);
}

}  // namespace

Size read_size(const Picture& picture, bool turn) try {
  const auto file = open(picture);
  const auto decoder = decoder_of(kind_of(file.get()), file.get());
  const auto header = decoder->header();
  Cut smallest{.box = whole(header.size), .least_side = 1};
  settle(*decoder, header.size, {}, smallest);
  return turn ? turned(header.size, header.orientation) : header.size;
} catch (const std::runtime_error& error) {
  throw UserError(picture.text() + ": " + error.what());
}

void check_file(const Picture& picture, const Reading& how, bool decode_all) try {
  const auto file = open(picture);
  const auto kind = kind_of(file.get());
  const auto decoder = decoder_of(kind, file.get());
  const auto size = decoder->header().size;
  Cut cut{.box = whole(size)};
  settle(*decoder, size, how, cut);
  if (decode_all || !ends_well(kind, file.get())) decode_whole(kind, file.get(), cut);
} catch (const std::runtime_error& error) {
  throw UserError(picture.text() + ": " + error.what());
}

Pixels decode(const Picture& picture, int64_t channels, const Reading& how, const Choose& choose) try {
  const auto file = open(picture);
  const auto decoder = decoder_of(kind_of(file.get()), file.get());
  const auto header = decoder->header();
  const int orientation = how.turn ? header.orientation : 1;
  const auto size = turned(header.size, orientation);
  auto cut = choose ? choose(size) : Cut{.box = whole(size)};
  cut.box = stored_box(cut.box, header.size, orientation);
  settle(*decoder, header.size, how, cut);
  return turned(checked(decoder->pixels(channels, cut), channels), orientation);
} catch (const std::runtime_error& error) {
  throw UserError(picture.text() + ": " + error.what());
}

}  // namespace ddprun::images
