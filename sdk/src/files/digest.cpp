// SPDX-License-Identifier: MIT
#include <ddprun/digest.h>
#include <ddprun/files.h>

#include <openssl/evp.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <vector>

namespace ddprun {
namespace {

constexpr size_t kBlockBytes = 1 << 20;

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

std::string sha256_file(const std::filesystem::path& file) { return digest_of(file).sha256; }

FileDigest digest_of(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw_file_error("read", file, errno);
  const struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};

  Sha256 sha;
  FileDigest digest;
  std::vector<char> block(kBlockBytes);
  for (;;) {
    const ssize_t got = ::read(fd, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error("read", file, errno);
    if (got == 0) break;
    sha.update(block.data(), static_cast<size_t>(got));
    digest.size += static_cast<uint64_t>(got);
  }
  digest.sha256 = sha.hex();
  return digest;
}

}  // namespace ddprun
