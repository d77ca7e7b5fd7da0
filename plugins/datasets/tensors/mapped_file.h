// SPDX-License-Identifier: MIT
// A whole file mapped read-only, so that the workers of one node share its pages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace ddprun::arrays {

struct MappedFile {
  std::filesystem::path path;
  std::shared_ptr<const uint8_t> bytes;
  uint64_t size = 0;

  // Throws UserError with the path and `flaw`.
  [[noreturn]] void refuse(const std::string& flaw) const;
};

// Throws UserError if there is no such file, it cannot be read, or it is empty.
MappedFile map_file(const std::filesystem::path& path);

}  // namespace ddprun::arrays
