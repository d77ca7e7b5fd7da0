// SPDX-License-Identifier: MIT
#include "rendezvous/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>

namespace ddprun {
namespace {

constexpr auto kProtocol = "rendezvous";
constexpr int kVersion = 1;
constexpr size_t kNonceBytes = 32;

std::string random_nonce() {
  std::array<unsigned char, kNonceBytes> bytes;
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) throw std::runtime_error("OpenSSL gives no random bytes");
  return {bytes.begin(), bytes.end()};
}

std::string proof(const Secret& secret, std::string_view side, const std::string& server_nonce,
                  const std::string& client_nonce) {
  const std::string key = secret.id + '\0' + secret.token;
  const std::string text = std::string(side) + '\0' + server_nonce + client_nonce;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  const auto* done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                          reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &size);
  if (done == nullptr) throw std::runtime_error("OpenSSL refuses HMAC-SHA256");
  return {digest.begin(), digest.begin() + size};
}

bool equal(const std::string& left, const std::string& right) {
  return left.size() == right.size() && CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

Message binary(const std::string& bytes) { return Message::binary({bytes.begin(), bytes.end()}); }

std::string bytes_of(const Message& message, const char* name) {
  const auto found = message.find(name);
  if (found == message.end() || !found->is_binary()) throw ProtocolError("it does not speak ddprun's protocol");
  const auto& bytes = found->get_binary();
  return {bytes.begin(), bytes.end()};
}

// What is wrong with the other side's first message; empty where nothing is.
std::string mismatch(const Message& greeting) {
  if (greeting.value("ddprun", "") != kProtocol) return "it does not speak ddprun's protocol";
  const auto version = greeting.value("version", 0);
  if (version == kVersion) return "";
  return "it is another version of ddprun: its protocol is " + std::to_string(version) + ", here " +
         std::to_string(kVersion) + "; install the same on all nodes";
}

}  // namespace

ServerHandshake::ServerHandshake(const Secret& secret) : secret_(secret), nonce_(random_nonce()) {}

Message ServerHandshake::greeting() const {
  return {{"ddprun", kProtocol}, {"version", kVersion}, {"nonce", binary(nonce_)}};
}

Message ServerHandshake::answer(const Message& reply) const {
  const auto problem = mismatch(reply);
  if (!problem.empty()) return {{"error", problem}};
  const auto id = reply.value("id", "");
  if (id != secret_.id)
    return {{"error", "another run listens there, of id \"" + secret_.id + "\", not \"" + id +
                          "\"; give each run its own port or --rdzv-id"}};
  const auto client_nonce = bytes_of(reply, "nonce");
  if (!equal(bytes_of(reply, "proof"), proof(secret_, "client", nonce_, client_nonce)))
    return {{"error",
             "the token is not that of the first node; give all nodes the same DDPRUN_TOKEN or launch.token_file"}};
  return {{"proof", binary(proof(secret_, "server", nonce_, client_nonce))}};
}

ClientHandshake::ClientHandshake(const Secret& secret) : secret_(secret), nonce_(random_nonce()) {}

Message ClientHandshake::reply(const Message& greeting) {
  const auto problem = mismatch(greeting);
  if (!problem.empty()) throw ProtocolError(problem);
  server_nonce_ = bytes_of(greeting, "nonce");
  return {{"ddprun", kProtocol},
          {"version", kVersion},
          {"nonce", binary(nonce_)},
          {"id", secret_.id},
          {"proof", binary(proof(secret_, "client", server_nonce_, nonce_))}};
}

void ClientHandshake::check(const Message& answer) const {
  if (answer.contains("error")) throw ProtocolError(answer.value("error", ""));
  if (!equal(bytes_of(answer, "proof"), proof(secret_, "server", server_nonce_, nonce_)))
    throw ProtocolError("it does not know the token of this run");
}

}  // namespace ddprun
