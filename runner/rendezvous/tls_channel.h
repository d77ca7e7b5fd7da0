// SPDX-License-Identifier: MIT
// Secures a connection whose ends share the run's secret: TLS 1.3 with it as external pre-shared key and Diffie-Hellman
// (RFC 8446, section 2.2; OpenSSL). Nobody else can send or understand a byte. Has no sockets: its owner carries the
// bytes.
#pragma once

#include "rendezvous/message.h"
#include "rendezvous/secret.h"

#include <memory>
#include <string>
#include <string_view>

struct ssl_st;

namespace ddprun {

class TlsChannel {
 public:
  enum class Side { kServer, kClient };

  TlsChannel(Side side, const Secret& secret);

  // Takes bytes from the wire and returns their plain content, once the handshake is done. Throws ProtocolError if the
  // other side is of another run, has another token, or is not ddprun; the alert for it may wait in take_outgoing().
  std::string receive(std::string_view wire);

  // Queues plain bytes to be sent. Call it once established.
  void send(std::string_view plain);

  // Returns what must go over the wire now; call it after every other call, and at the client's start.
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
