// SPDX-License-Identifier: MIT
// Reads a gzipped file piece by piece. A plugin links ddprun::download.
#pragma once

#include <ddprun/api.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

struct gzFile_s;  // NOLINT(readability-identifier-naming): zlib's

namespace ddprun {

// Returns true if the file begins like a gzip file, whatever its name. Throws UserError if it cannot be read.
DDPRUN_API bool is_gzip(const std::filesystem::path& path);

// Used by one thread at a time.
class DDPRUN_API GzipFile {
 public:
  // Throws UserError if the file cannot be opened.
  explicit GzipFile(const std::filesystem::path& path);

  // Fills `out` with the next unpacked bytes and returns their number, which is smaller only at the end of the data or
  // if the file is cut off. Throws UserError if the packed data are damaged.
  size_t read(std::span<uint8_t> out);

  // After read() has reached the end: returns true if the file ends before its packing does, so that no checksum
  // vouches for its content.
  bool cut_off() const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<gzFile_s> file_;
};

}  // namespace ddprun
