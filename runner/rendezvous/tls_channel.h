// SPDX-License-Identifier: MIT
// Both ends of a connection know the run's secret: TLS 1.3 with it as external pre-shared key and Diffie-Hellman (RFC
// 8446, section 2.2; OpenSSL). Who does not know it gets no byte in, and understands none. Knows no sockets: its owner
// carries the bytes.
#pragma once

#include "rendezvous/message.h"

#include <memory>
#include <string>
#include <string_view>

struct ssl_st;

namespace ddprun {

// What all of a run know. Without a token the id alone keeps runs apart, which keeps out nobody who can guess it.
struct Secret {
  std::string id;     // of the run: --rdzv-id, or what the engine calls its job
  std::string token;  // launch.token_file or DDPRUN_TOKEN; may be empty
};

class TlsChannel {
 public:
  enum class Side { kServer, kClient };

  TlsChannel(Side side, const Secret& secret);

  // Takes what came over the wire; returns what it means, once the handshake is done. Throws ProtocolError where the
  // other side is of another run, has another token, or is no ddprun; the alert for it may wait in take_outgoing().
  std::string receive(std::string_view wire);

  // Hands over plain bytes to be sent. To be called once established.
  void send(std::string_view plain);

  // What is to go over the wire now; ask after each other call, and at the client's start.
  std::string take_outgoing();

  bool established() const;  // the other side has proved that it knows the secret

 private:
  void shake_hands();

  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  std::unique_ptr<ssl_st, Free> ssl_;
};

}  // namespace ddprun
