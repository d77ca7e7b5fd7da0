// SPDX-License-Identifier: MIT
// PNG, JPEG and WebP, as the dataset image_folder reads them.
#include "fuzz/fuzz_target.h"
#include "image_file.h"

#include <zlib.h>

#include <string>

namespace ddprun {
namespace {

constexpr int64_t kMostPixels = 1 << 18;  // a large picture is a slow one, and finds no more

uint32_t big_endian(const char* bytes) {
  uint32_t number = 0;
  for (int i = 0; i < 4; ++i) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

// The right checksum for each chunk of a PNG: hardly any change of one would get beyond it.
std::string with_checksums(std::string_view bytes) {
  std::string file(bytes);
  constexpr size_t kMark = 8, kAround = 12;  // the length, the chunk's kind, the checksum
  if (!file.starts_with("\x89PNG")) return file;
  for (size_t at = kMark; at + kAround <= file.size();) {
    const size_t length = big_endian(&file[at]);
    if (length > file.size() - at - kAround) break;
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(&file[at + 4]), static_cast<uInt>(length + 4));
    for (size_t i = 0; i < 4; ++i) file[at + 8 + length + i] = static_cast<char>(sum >> (24 - 8 * i));
    at += length + kAround;
  }
  return file;
}

}  // namespace

void feed_image(std::string_view bytes) {
  const auto path = fuzz::as_file(with_checksums(bytes));
  const auto size = images::read_size(path);
  if (size.height * size.width > kMostPixels) return;
  const auto lower_half = [](const images::Size& whole) {
    return images::Cut{.box = {whole.height / 2, whole.width / 3, {(whole.height + 1) / 2, (whole.width + 2) / 3}},
                       .least_side = 4};
  };
  for (const int64_t channels : {1, 3}) {
    images::decode(path, channels);
    images::decode(path, channels, {}, lower_half);
  }
  images::check_file(path);
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(image, feed_image)
