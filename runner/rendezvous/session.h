// SPDX-License-Identifier: MIT
// One connection at the server: the handshake, then messages in both directions. Used only on the server's thread.
#pragma once

#include "rendezvous/tls_channel.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <functional>
#include <memory>
#include <string>

namespace ddprun {

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Take = std::function<void(const Message&)>;
  using Closed = std::function<void(const std::string& why)>;

  Session(boost::asio::ip::tcp::socket socket, const Secret& secret);

  // `take` gets every message; what it throws ends the connection. `closed` is called once.
  void start(Take take, Closed closed);
  void send(const Message& message);              // only after the handshake
  void close(const std::string& why);             // after what is being sent has gone out
  void cut(const std::string& why) { end(why); }  // at once: the peer is not reading
  bool known() const { return channel_.established(); }

 private:
  void read();
  void on_bytes(std::string_view wire);
  void write();
  void end(const std::string& why);

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer patience_;  // for the handshake
  TlsChannel channel_;
  size_t heard_ = 0;  // bytes from an unknown peer
  Take take_;
  Closed closed_;
  MessageReader reader_;
  std::array<char, 64 << 10> piece_;
  std::string outbox_, under_way_;
  std::string closing_;  // why it ends once the outbox is empty
};

}  // namespace ddprun
