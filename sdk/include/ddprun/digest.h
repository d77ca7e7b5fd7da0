// SPDX-License-Identifier: MIT
// SHA-256 as lower-case hexadecimal digits, as printed by sha256sum.
#pragma once

#include <ddprun/api.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace ddprun {

// Digests bytes that come in pieces. Throws std::runtime_error if OpenSSL refuses (a FIPS policy, no memory).
class DDPRUN_API Sha256 {
 public:
  Sha256();
  ~Sha256();
  // Adds bytes.
  void update(const void* data, size_t size);

  // Returns the digest of all bytes so far, 64 digits; more may follow.
  std::string hex();

 private:
  struct Context;  // keeps OpenSSL's headers out of this one
  std::unique_ptr<Context> context_;
};

// Throws FileError with the path if the file cannot be read to its end, or is a pipe or a device.
DDPRUN_API std::string sha256_file(const std::filesystem::path& file);

// What a file held when it was written or read.
struct FileDigest {
  uint64_t size = 0;   // bytes
  std::string sha256;  // lower-case hexadecimal

  // Compares both.
  bool operator==(const FileDigest&) const = default;
};

// Reads a whole file to compute its size and SHA-256. Throws as sha256_file() does.
DDPRUN_API FileDigest digest_of(const std::filesystem::path& file);

}  // namespace ddprun
