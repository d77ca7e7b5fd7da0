// SPDX-License-Identifier: MIT
#include "idx_file.h"

#include <ddprun/error.h>
#include <ddprun/files.h>
#include <ddprun/gzip_file.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string>

namespace ddprun::idx {
namespace {

constexpr uint32_t kImageMagic = 0x803, kLabelMagic = 0x801;  // unsigned bytes in 3 dimensions, in 1
constexpr int64_t kMostBytes = int64_t{1} << 30;              // unpacked; EMNIST's largest has 547 MB
constexpr int64_t kMostPixels = 1 << 22;                      // per image
constexpr int64_t kGzipRatio = 1032;                          // the most that deflate compresses

using Path = std::filesystem::path;

std::string hex(uint32_t number) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", number);
  return text.data();
}

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

size_t header_bytes(IdxKind kind) { return kind == IdxKind::kImages ? 16 : 8; }
const char* word(IdxKind kind) { return kind == IdxKind::kImages ? "images" : "labels"; }

[[noreturn]] void wrong_magic(const Path& path, uint32_t found, IdxKind kind) {
  const auto expected = kind == IdxKind::kImages ? kImageMagic : kLabelMagic;
  const auto other = kind == IdxKind::kImages ? kLabelMagic : kImageMagic;
  std::string hint = "this is not a file of " + std::string(word(kind)) + " in MNIST's format";
  if (found == other) hint = "are the files of images and of labels swapped?";
  if (found >> 24 == '<') hint = "this looks like a web page, not like data; download the file again";
  throw UserError(path.string() + ": magic number " + hex(found) + ", expected " + hex(expected) + " for " +
                  word(kind) + ": " + hint);
}

// Returns the sizes that the header claims, if they are plausible.
std::vector<int64_t> parse_header(const Path& path, std::span<const uint8_t> header, IdxKind kind) {
  if (header.size() >= 4) {
    const auto magic = big_endian(header.data());
    if (magic != (kind == IdxKind::kImages ? kImageMagic : kLabelMagic)) wrong_magic(path, magic, kind);
  }
  if (header.size() < header_bytes(kind)) {
    throw UserError(path.string() + ": holds " + std::to_string(header.size()) + " bytes, expected a header of " +
                    std::to_string(header_bytes(kind)) + ": the file is empty or truncated; replace it");
  }
  std::vector<int64_t> shape;
  for (size_t at = 4; at < header_bytes(kind); at += 4) shape.push_back(big_endian(header.data() + at));
  if (shape[0] == 0) throw UserError(path.string() + ": its header says that it holds no " + word(kind));
  if (kind == IdxKind::kImages) {
    const int64_t pixels = shape[1] * std::min(shape[2], kMostPixels + 1);
    if (pixels < 1 || shape[1] > kMostPixels || pixels > kMostPixels) {
      throw UserError(path.string() + ": its header claims images of " + std::to_string(shape[1]) + " x " +
                      std::to_string(shape[2]) + " pixels, expected 1 to " + std::to_string(kMostPixels) + " pixels");
    }
  }
  return shape;
}

int64_t product(const std::vector<int64_t>& shape) {
  int64_t values = 1;
  for (const int64_t size : shape) values *= size;
  return values;
}

[[noreturn]] void wrong_size(const Path& path, const std::vector<int64_t>& shape, IdxKind kind,
                             const std::string& found) {
  std::string claim = std::to_string(shape[0]) + " " + word(kind);
  if (kind == IdxKind::kImages) claim += " of " + std::to_string(shape[1]) + " x " + std::to_string(shape[2]);
  const auto expected = static_cast<int64_t>(header_bytes(kind)) + product(shape);
  throw UserError(path.string() + ": its header claims " + claim + ", which is " + std::to_string(expected) +
                  " bytes, but " + found + "; replace the file");
}

std::string holds(int64_t bytes, int64_t expected) {
  const auto what = bytes < expected ? ": it is truncated" : ": there is more than the header says";
  return "the file holds " + std::to_string(bytes) + what;
}

IdxFile read_packed(const Path& path, IdxKind kind) {
  GzipFile file(path);
  std::array<uint8_t, 16> start{};
  const auto header = std::span(start).first(header_bytes(kind));
  const auto shape = parse_header(path, header.first(file.read(header)), kind);
  const int64_t values = product(shape);
  const auto packed_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  if (values > kMostBytes) wrong_size(path, shape, kind, "at most " + std::to_string(kMostBytes) + " are read");
  if (values > packed_bytes * kGzipRatio) {
    wrong_size(path, shape, kind, std::to_string(packed_bytes) + " packed bytes cannot hold that: it is truncated");
  }
  // Left uninitialized, so that memory is taken as it is filled, not as the header claims.
  const std::shared_ptr<uint8_t[]> bytes(new uint8_t[static_cast<size_t>(values)]);
  const auto size = static_cast<int64_t>(header.size());
  const auto got = static_cast<int64_t>(file.read({bytes.get(), static_cast<size_t>(values)}));
  uint8_t beyond = 0;
  if (got < values) wrong_size(path, shape, kind, holds(size + got, size + values));
  if (file.read({&beyond, 1}) > 0)
    wrong_size(path, shape, kind, "the file continues: there is more than the header says");
  if (file.cut_off()) throw UserError(path.string() + ": the end of the packed file is missing; replace the file");
  return {.path = path, .shape = shape, .bytes = {bytes, bytes.get()}};
}

IdxFile read_raw(const Path& path, IdxKind kind) {
  if (std::filesystem::file_size(path) == 0) parse_header(path, {}, kind);
  const auto file = map_file(path);
  const auto bytes = static_cast<int64_t>(file.size);
  const auto size = static_cast<int64_t>(header_bytes(kind));
  const auto shape = parse_header(path, {file.bytes.get(), static_cast<size_t>(std::min(bytes, size))}, kind);
  const int64_t expected = size + product(shape);
  if (bytes != expected) wrong_size(path, shape, kind, holds(bytes, expected));
  return {.path = path, .shape = shape, .bytes = {file.bytes, file.bytes.get() + size}};
}

}  // namespace

IdxFile read_idx(const Path& path, IdxKind kind) {
  if (!std::filesystem::is_regular_file(path)) throw UserError(path.string() + ": is not a file");
  return is_gzip(path) ? read_packed(path, kind) : read_raw(path, kind);
}

}  // namespace ddprun::idx
