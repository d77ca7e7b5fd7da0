// SPDX-License-Identifier: MIT
// Both ends of a connection prove that they know the run's secret, without sending it: each sends a nonce, and the HMAC-SHA256
// (RFC 2104, through OpenSSL) of both nonces under the secret.
//
//   server: {ddprun, version, nonce}
//   client: {ddprun, version, nonce, id, proof}
//   server: {proof}, or {error} and the end
#pragma once

#include "rendezvous/message.h"

#include <string>

namespace ddprun {

// What all of a run know. Without a token the proofs only keep runs of different ids apart.
struct Secret {
  std::string id;     // of the run: --rdzv-id, or what the engine calls its job
  std::string token;  // launch.token_file or DDPRUN_TOKEN; may be empty
};

class ServerHandshake {
 public:
  explicit ServerHandshake(const Secret& secret);
  Message greeting() const;
  // What to answer; where it holds "error", the connection ends with it.
  Message answer(const Message& reply) const;

 private:
  const Secret& secret_;
  std::string nonce_;
};

class ClientHandshake {
 public:
  explicit ClientHandshake(const Secret& secret);
  // Throws ProtocolError where the server is another program, or another version.
  Message reply(const Message& greeting);
  // Throws ProtocolError with what the server says, or where its proof is wrong.
  void check(const Message& answer) const;

 private:
  const Secret& secret_;
  std::string nonce_, server_nonce_;
};

}  // namespace ddprun
