// SPDX-License-Identifier: MIT
// Reads a file packed by gzip, piece by piece. Used from one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

struct gzFile_s;

namespace ddprun::remote {

// Whether the file begins as gzip's do, whatever its name says. Throws UserError where it cannot be read.
bool is_gzip(const std::filesystem::path& path);

class GzipFile {
 public:
  explicit GzipFile(const std::filesystem::path& path);

  // Fills `out` with the next unpacked bytes and returns how many there were: fewer only at the end of the data, or
  // where the file was cut off. Throws UserError where the packed data are damaged.
  size_t read(std::span<uint8_t> out);

  // After a read() that met the end: whether the file ends before its packing does, so that nothing vouches for its
  // content.
  bool cut_off() const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<gzFile_s> file_;
};

}  // namespace ddprun::remote
