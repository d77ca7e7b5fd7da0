// SPDX-License-Identifier: MIT
#include "rendezvous/session.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include <chrono>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::seconds kHandshakeTime{10};  // a stranger that says nothing does not stay

}  // namespace

Session::Session(asio::ip::tcp::socket socket, const Secret& secret)
    : socket_(std::move(socket)), patience_(socket_.get_executor()), secret_(secret), handshake_(secret) {}

void Session::start(Take take, Closed closed) {
  take_ = std::move(take);
  closed_ = std::move(closed);
  patience_.expires_after(kHandshakeTime);
  patience_.async_wait([self = shared_from_this()](const auto& error) {
    if (!error && !self->known_) self->end("it did not introduce itself");
  });
  send(handshake_.greeting());
  read();
}

void Session::read() {
  socket_.async_read_some(asio::buffer(piece_), [self = shared_from_this()](const auto& error, size_t size) {
    if (error) return self->end(error == asio::error::eof ? "it closed the connection" : error.message());
    try {
      self->reader_.feed({self->piece_.data(), size});
      while (const auto message = self->reader_.next()) reading([&] { self->on_message(*message); });
    } catch (const ProtocolError& problem) {
      return self->end(problem.what());
    }
    if (self->socket_.is_open() && self->closing_.empty()) self->read();
  });
}

void Session::on_message(const Message& message) {
  if (known_) return take_(message);
  const auto answer = handshake_.answer(message);
  send(answer);
  if (answer.contains("error")) return close(answer.at("error"));
  known_ = true;
  reader_.allow(MessageReader::kMost);
  patience_.cancel();
}

void Session::send(const Message& message) {
  if (!socket_.is_open()) return;
  outbox_.push_back(encode(message));
  if (outbox_.size() == 1) write();
}

void Session::write() {
  asio::async_write(socket_, asio::buffer(outbox_.front()), [self = shared_from_this()](const auto& error, size_t) {
    if (error) return self->end(error.message());
    self->outbox_.pop_front();
    if (!self->outbox_.empty()) return self->write();
    if (!self->closing_.empty()) self->end(self->closing_);
  });
}

void Session::close(const std::string& why) {
  closing_ = why;
  if (outbox_.empty()) end(why);
}

void Session::end(const std::string& why) {
  boost::system::error_code ignored;
  socket_.close(ignored);
  patience_.cancel();
  take_ = nullptr;
  if (const auto closed = std::exchange(closed_, nullptr)) closed(why);
}

}  // namespace ddprun
