// SPDX-License-Identifier: MIT
// One connection at the server: the handshake, then messages in both directions. On the server's thread alone.
#pragma once

#include "rendezvous/handshake.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace ddprun {

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Take = std::function<void(const Message&)>;
  using Closed = std::function<void(const std::string& why)>;

  Session(boost::asio::ip::tcp::socket socket, const Secret& secret);

  // `take` gets every message after the handshake; what it throws as ProtocolError ends the connection. `closed` is called once.
  void start(Take take, Closed closed);
  void send(const Message& message);
  void close(const std::string& why);  // after what is under way has been sent

 private:
  void read();
  void on_message(const Message& message);
  void write();
  void end(const std::string& why);

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer patience_;  // for the handshake
  const Secret& secret_;
  ServerHandshake handshake_;
  bool known_ = false;  // the handshake is done
  Take take_;
  Closed closed_;
  MessageReader reader_{MessageReader::kOfAStranger};
  std::array<char, 64 << 10> piece_;
  std::deque<std::string> outbox_;
  std::string closing_;  // why it ends once the outbox is empty
};

}  // namespace ddprun
