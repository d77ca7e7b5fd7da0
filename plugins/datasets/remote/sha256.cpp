// SPDX-License-Identifier: MIT
#include "sha256.h"

#include <openssl/evp.h>

#include <array>
#include <stdexcept>

namespace ddprun::remote {
namespace {

void check(bool done) {
  if (!done) throw std::runtime_error("OpenSSL cannot compute SHA-256");
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::update(std::span<const uint8_t> bytes) {
  check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() {
  std::array<uint8_t, 32> digest{};
  check(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
  std::string text;
  for (const uint8_t byte : digest) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

}  // namespace ddprun::remote
