// SPDX-License-Identifier: MIT
// Files in MNIST's format: a magic number, the sizes, then one byte per value. All numbers are big-endian.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace ddprun::idx {

enum class IdxKind { kImages, kLabels };

struct IdxFile {
  std::filesystem::path path;
  std::vector<int64_t> shape;            // {images, rows, columns} or {labels}
  std::shared_ptr<const uint8_t> bytes;  // the product of shape; a mapped file or an unpacked buffer

  int64_t count() const { return shape[0]; }
};

// Reads a raw or gzipped file, known by its first bytes, not by its name. The header is checked against the size
// of the file before anything is allocated. Throws UserError with the path, what was found and what was expected.
IdxFile read_idx(const std::filesystem::path& path, IdxKind kind);

}  // namespace ddprun::idx
