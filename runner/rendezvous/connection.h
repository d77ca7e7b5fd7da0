// SPDX-License-Identifier: MIT
// A client's connection to the first node after the handshake, with messages in both directions. Not thread-safe.
#pragma once

#include "base/spawn.h"
#include "rendezvous/address.h"
#include "rendezvous/tls_channel.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace ddprun {

// The other side is gone, or nothing came in time.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  // Tries until somebody listens there, or until the deadline; `interrupted` is polled meanwhile. Throws UserError if
  // nobody does, it is another run's, or the tokens differ; ConnectionLost if it was interrupted.
  static Connection open(const Endpoint& endpoint, const Secret& secret, Clock::time_point deadline,
                         const std::function<bool()>& interrupted = nullptr);

  // Blocks until the kernel has taken it. Throws ConnectionLost.
  void send(const Message& message);

  // Waits for the next message until the deadline; returns nothing after that. Throws ConnectionLost, ProtocolError.
  std::optional<Message> receive(Clock::time_point deadline);

  int fd() const { return socket_.get(); }

 private:
  Connection(UniqueFd socket, std::string peer, const Secret& secret)
      : socket_(std::move(socket)), peer_(std::move(peer)), channel_(TlsChannel::Side::kClient, secret) {}
  void introduce();
  void flush();
  bool take_bytes(Clock::time_point deadline);

  UniqueFd socket_;  // non-blocking
  std::string peer_;
  TlsChannel channel_;
  MessageReader reader_;
};

}  // namespace ddprun
