// SPDX-License-Identifier: MIT
#include <ddprun/digest.h>

#include <openssl/evp.h>

#include <array>
#include <stdexcept>

namespace ddprun {
namespace {

void require(int ok) {
  if (ok != 1) throw std::runtime_error("SHA-256: OpenSSL refuses (a FIPS policy, or no memory)");
}

}  // namespace

struct Sha256::Context {
  EVP_MD_CTX* md = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(md); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  require(context_->md != nullptr && EVP_DigestInit_ex(context_->md, EVP_sha256(), nullptr));
}

Sha256::~Sha256() = default;

void Sha256::update(const void* data, size_t size) { require(EVP_DigestUpdate(context_->md, data, size)); }

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  Context so_far;
  require(so_far.md != nullptr && EVP_MD_CTX_copy_ex(so_far.md, context_->md));
  require(EVP_DigestFinal_ex(so_far.md, digest.data(), nullptr));
  std::string text;
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace ddprun
