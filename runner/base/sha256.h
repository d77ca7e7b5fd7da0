// SPDX-License-Identifier: MIT
// SHA-256 as lower-case hexadecimal digits, as sha256sum prints it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

namespace ddprun {

// The digest of bytes that come in pieces. Throws std::runtime_error where OpenSSL refuses (a FIPS policy, no memory).
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(const void* data, size_t size);

  // Of all bytes so far; more may follow.
  std::string hex();

 private:
  struct Context;  // keeps OpenSSL's headers out of this one
  std::unique_ptr<Context> context_;
};

// Throws std::system_error with the path where the file cannot be read to its end.
std::string sha256_file(const std::filesystem::path& file);

}  // namespace ddprun
