// SPDX-License-Identifier: MIT
// SHA-256 as lower-case hexadecimal digits, as printed by sha256sum.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

namespace ddprun {

// Digests bytes that come in pieces. Throws std::runtime_error if OpenSSL refuses (a FIPS policy, no memory).
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(const void* data, size_t size);

  // Returns the digest of all bytes so far; more may follow.
  std::string hex();

 private:
  struct Context;  // keeps OpenSSL's headers out of this one
  std::unique_ptr<Context> context_;
};

// Throws std::system_error with the path if the file cannot be read to its end.
std::string sha256_file(const std::filesystem::path& file);

}  // namespace ddprun
