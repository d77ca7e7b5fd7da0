// SPDX-License-Identifier: MIT
#include "image_file.h"

#include "jpeg_image.h"
#include "png_image.h"

#include <ddprun/error.h>

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
  if (picture.shard && picture.size == 0) throw std::runtime_error("is empty");
  if (picture.shard) {
    auto* bytes = const_cast<uint8_t*>(picture.shard->bytes.get() + picture.begin);  // only read
    return {::fmemopen(bytes, picture.size, "rb"), std::fclose};
  }
  File file(std::fopen(picture.file.c_str(), "rbe"), std::fclose);
  if (!file) throw std::runtime_error(std::string("cannot be opened: ") + std::strerror(errno));
  return file;
}

bool is_png(std::FILE* file) {
  std::array<char, 8> start{};
  const auto got = std::fread(start.data(), 1, start.size(), file);
  std::rewind(file);
  const std::string_view text(start.data(), got);
  if (text == "\x89PNG\r\n\x1a\n") return true;
  if (text.starts_with("\xff\xd8\xff")) return false;
  throw std::runtime_error(got == 0 ? "is empty or not a file" : "is neither PNG nor JPEG");
}

void check(const Size& size) {
  if (size.height <= kMostSide && size.width <= kMostSide && size.height * size.width <= kMostPixels) return;
  throw std::runtime_error("claims " + std::to_string(size.width) + " x " + std::to_string(size.height) +
                           " pixels, at most " + std::to_string(kMostPixels) + " are decoded");
}

// Checks the size, which resizing relies on.
Pixels whole(Pixels pixels, int64_t channels) {
  const int64_t expected = pixels.size.height * pixels.size.width * channels;
  if (pixels.channels == channels && static_cast<int64_t>(pixels.bytes.size()) == expected) return pixels;
  throw std::logic_error("decoded " + std::to_string(pixels.bytes.size()) + " bytes of " +
                         std::to_string(pixels.channels) + " channels, expected " + std::to_string(expected) + " of " +
                         std::to_string(channels));
}

}  // namespace

Size read_size(const Picture& picture) try {
  const auto file = open(picture);
  const auto size = is_png(file.get()) ? read_png_size(file.get()) : read_jpeg_size(file.get());
  check(size);
  return size;
} catch (const std::runtime_error& error) {
  throw UserError(picture.text() + ": " + error.what());
}

Pixels decode(const Picture& picture, int64_t channels) try {
  const auto file = open(picture);
  const bool png = is_png(file.get());
  check(png ? read_png_size(file.get()) : read_jpeg_size(file.get()));
  std::rewind(file.get());
  return whole(png ? read_png(file.get(), channels) : read_jpeg(file.get(), channels), channels);
} catch (const std::runtime_error& error) {
  throw UserError(picture.text() + ": " + error.what());
}

}  // namespace ddprun::images
