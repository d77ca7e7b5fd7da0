// SPDX-License-Identifier: MIT
// Files of data for the tests, right and wrong: their bytes.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::test {

// The bytes of these values, one after the other.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// `bytes` little-endian bytes of a number.
inline std::string little_endian(uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}

inline std::string big_endian(uint32_t number) {
  const auto text = little_endian(number, 4);
  return {text.rbegin(), text.rend()};
}

// NumPy's and Hugging Face's.

// What numpy.save writes, version 1.0.
inline std::string npy_file(const std::string& descr, const std::string& shape, const std::string& values) {
  auto text = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  while ((10 + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + little_endian(text.size(), 2) + text + values;
}

// A tensor's entry of the header; its bytes are those from `begin` to `end`.
inline std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, size_t begin,
                         size_t end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

inline std::string safetensors_file(const std::vector<std::string>& entries, const std::string& values) {
  std::string header;
  for (const auto& one : entries) header += (header.empty() ? "{" : ",") + one;
  return little_endian(header.size() + 1, 8) + header + "}" + values;
}

// MNIST's.

inline constexpr uint32_t kImages = 0x803, kLabels = 0x801;

inline std::string idx_header(const std::vector<uint32_t>& numbers) {
  std::string text;
  for (const uint32_t number : numbers) text += big_endian(number);
  return text;
}

// Pixel p of image n is n + p.
inline std::string image_file(uint32_t count, uint32_t rows = 4, uint32_t columns = 3) {
  auto text = idx_header({kImages, count, rows, columns});
  for (uint32_t n = 0; n < count; ++n) {
    for (uint32_t p = 0; p < rows * columns; ++p) text += static_cast<char>(n + p);
  }
  return text;
}

// Label n is n % 10.
inline std::string label_file(uint32_t count) {
  auto text = idx_header({kLabels, count});
  for (uint32_t n = 0; n < count; ++n) text += static_cast<char>(n % 10);
  return text;
}

// Archives.

// `mode` is gzopen()'s: "wb0" stores the bytes as they are.
inline std::filesystem::path write_packed(const std::filesystem::path& path, const std::string& bytes,
                                          const char* mode = "wb") {
  const gzFile file = gzopen(path.c_str(), mode);
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  return path;
}

// Sets the checksum of each block that could be a member's head.
inline std::string with_sums(std::string_view bytes) {
  constexpr size_t kBlock = 512, kSumAt = 148, kSumBytes = 8;
  std::string tar(bytes);
  for (size_t at = 0; at + kBlock <= tar.size(); at += kBlock) {
    if (tar.compare(at + 257, 5, "ustar") != 0) continue;
    std::fill_n(tar.begin() + static_cast<std::ptrdiff_t>(at + kSumAt), kSumBytes, ' ');
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<uint8_t>(tar[at + i]);
    std::snprintf(&tar[at + kSumAt], kSumBytes, "%06o", sum);
  }
  return tar;
}

// A member with its header; `type` is tar's: '0' file, '2' symbolic link, '5' folder. `claimed` is the size that the
// header says, the content's own where it is negative; `target` is what a link points to.
inline std::string tar_member(const std::string& name, const std::string& content, char type = '0',
                              int64_t claimed = -1, const std::string& target = "target") {
  std::string header(512, '\0');
  const auto put = [&](size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  char size[32];
  std::snprintf(size, sizeof size, "%011llo",
                static_cast<unsigned long long>(claimed < 0 ? static_cast<int64_t>(content.size()) : claimed));
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, size);
  put(136, std::string(11, '0'));
  header[156] = type;
  if (type == '1' || type == '2') put(157, target);
  put(257, std::string("ustar\0", 6) + "00");
  return with_sums(header) + content + std::string((512 - content.size() % 512) % 512, '\0');
}

inline const std::string kTarEnd(1024, '\0');

}  // namespace ddprun::test
