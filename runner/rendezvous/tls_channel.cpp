// SPDX-License-Identifier: MIT
#include "rendezvous/tls_channel.h"

#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>

#include <array>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace ddprun {
namespace {

using Side = TlsChannel::Side;
using Key = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

constexpr std::string_view kProtocol = "ddprun rendezvous 3";  // increment with each change of the messages
constexpr std::array<unsigned char, 2> kCipher{0x13, 0x01};    // TLS_AES_128_GCM_SHA256
constexpr auto kForeign = "it does not speak ddprun's protocol";

struct ContextFree {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

// Derived from the secret on both sides: the key's name, which goes over the wire, and the key.
struct SharedKey {
  std::string name;
  Key key;
};

Key digest(const std::string& text) {
  Key digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

SharedKey shared_key(const Secret& secret) {
  const std::string protocol(kProtocol);
  const auto id = digest(protocol + '\0' + secret.id);
  return {.name = protocol + '\0' + std::string(id.begin(), id.end()),
          .key = digest(protocol + '\0' + std::to_string(secret.id.size()) + '\0' + secret.id + secret.token)};
}

// OpenSSL frees it with its connection.
int key_slot() {
  static const int kSlot =
      SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, [](void*, void* key, CRYPTO_EX_DATA*, int, long, void*) {
        delete static_cast<SharedKey*>(key);  // NOLINT: OpenSSL's callback
      });
  return kSlot;
}

const SharedKey& key_of(const SSL* ssl) { return *static_cast<const SharedKey*>(SSL_get_ex_data(ssl, key_slot())); }

// Pretends that a session with this key was held before. It never expires: OpenSSL would judge its age by the wall
// clock, which may leap in the middle of a handshake.
SSL_SESSION* session_of(SSL* ssl) {
  constexpr long kAges = std::numeric_limits<std::int32_t>::max();  // seconds: 68 years
  SSL_SESSION* session = SSL_SESSION_new();
  const auto& key = key_of(ssl).key;
  const bool made = session && SSL_SESSION_set1_master_key(session, key.data(), key.size()) == 1 &&
                    SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kCipher.data())) == 1 &&
                    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1 &&
                    SSL_SESSION_set_timeout(session, kAges) == 1;
  if (made) return session;
  SSL_SESSION_free(session);
  return nullptr;
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** name, size_t* size, SSL_SESSION** session) {
  *session = session_of(ssl);
  const auto& own = key_of(ssl).name;
  *name = reinterpret_cast<const unsigned char*>(own.data());
  *size = own.size();
  return *session ? 1 : 0;
}

// Finds no session for a name that is not ours: the handshake then fails, since there is no certificate either.
int find_key(SSL* ssl, const unsigned char* name, size_t size, SSL_SESSION** session) {
  const std::string_view wanted(reinterpret_cast<const char*>(name), size);
  *session = wanted == key_of(ssl).name ? session_of(ssl) : nullptr;
  return 1;
}

std::unique_ptr<SSL_CTX, ContextFree> make_context(Side side) {
  std::unique_ptr<SSL_CTX, ContextFree> context(
      SSL_CTX_new(side == Side::kServer ? TLS_server_method() : TLS_client_method()));
  if (!context) throw std::runtime_error("OpenSSL cannot start");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_num_tickets(context.get(), 0);
  if (side == Side::kServer) {
    SSL_CTX_set_psk_find_session_callback(context.get(), find_key);
  } else {
    SSL_CTX_set_psk_use_session_callback(context.get(), offer_key);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);  // refuse a certificate in place of the key
  }
  return context;
}

// Returns why OpenSSL failed.
std::string problem() {
  const auto error = ERR_peek_error();
  ERR_clear_error();
  switch (ERR_GET_REASON(error)) {
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      return "another run listens there, or another version of ddprun; give each run its own port or --rdzv-id, and "
             "install the same version on all nodes";
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
      return "the token is not that of the first node; give all nodes the same DDPRUN_TOKEN or launch.token_file";
    case SSL_R_BINDER_DOES_NOT_VERIFY: return "it has another token";
    default: break;
  }
  const char* reason = ERR_reason_error_string(error);
  return reason ? kForeign + std::string(" (") + reason + ")" : kForeign;
}

}  // namespace

void TlsChannel::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

TlsChannel::TlsChannel(Side side, const Secret& secret) {
  const auto context = make_context(side);
  ssl_.reset(SSL_new(context.get()));
  if (!ssl_) throw std::runtime_error("OpenSSL cannot start");
  SSL_set_ex_data(ssl_.get(), key_slot(), new SharedKey(shared_key(secret)));  // NOLINT: the slot owns it
  SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  if (side == Side::kServer) {
    SSL_set_accept_state(ssl_.get());
  } else {
    SSL_set_connect_state(ssl_.get());
    shake_hands();
  }
}

bool TlsChannel::established() const { return SSL_is_init_finished(ssl_.get()) == 1 && SSL_session_reused(ssl_.get()); }

void TlsChannel::shake_hands() {
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_.get());
  if (done == 1 && !established()) throw ProtocolError(kForeign);
  if (done != 1 && SSL_get_error(ssl_.get(), done) != SSL_ERROR_WANT_READ) throw ProtocolError(problem());
}

std::string TlsChannel::receive(std::string_view wire) {
  BIO_write(SSL_get_rbio(ssl_.get()), wire.data(), static_cast<int>(wire.size()));
  if (!SSL_is_init_finished(ssl_.get())) shake_hands();
  std::string plain;
  std::array<char, 16 << 10> piece;  // the most that a record holds
  while (SSL_is_init_finished(ssl_.get())) {
    ERR_clear_error();
    const int got = SSL_read(ssl_.get(), piece.data(), piece.size());
    if (got > 0) {
      plain.append(piece.data(), static_cast<size_t>(got));
      continue;
    }
    const int error = SSL_get_error(ssl_.get(), got);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_ZERO_RETURN) break;
    throw ProtocolError(problem());
  }
  return plain;
}

void TlsChannel::send(std::string_view plain) {
  ERR_clear_error();
  if (!plain.empty() && SSL_write(ssl_.get(), plain.data(), static_cast<int>(plain.size())) <= 0)
    throw ProtocolError(problem());
}

std::string TlsChannel::take_outgoing() {
  std::string wire(BIO_ctrl_pending(SSL_get_wbio(ssl_.get())), '\0');
  if (!wire.empty()) BIO_read(SSL_get_wbio(ssl_.get()), wire.data(), static_cast<int>(wire.size()));
  return wire;
}

}  // namespace ddprun
