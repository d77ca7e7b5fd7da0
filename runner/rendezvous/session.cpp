// SPDX-License-Identifier: MIT
#include "rendezvous/session.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include <chrono>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::seconds kHandshakeTime{10};  // an unknown peer that says nothing is dropped
constexpr size_t kHandshakeBytes = 16 << 10;        // and so is one that says too much

}  // namespace

Session::Session(asio::ip::tcp::socket socket, const Secret& secret)
    : socket_(std::move(socket)), patience_(socket_.get_executor()), channel_(TlsChannel::Side::kServer, secret) {}

void Session::start(Take take, Closed closed) {
  take_ = std::move(take);
  closed_ = std::move(closed);
  patience_.expires_after(kHandshakeTime);
  patience_.async_wait([self = shared_from_this()](const auto& error) {
    if (!error && !self->known()) self->end("it did not introduce itself");
  });
  read();
}

void Session::read() {
  socket_.async_read_some(asio::buffer(piece_), [self = shared_from_this()](const auto& error, size_t size) {
    if (error) return self->end(error == asio::error::eof ? "it closed the connection" : error.message());
    try {
      self->on_bytes({self->piece_.data(), size});
    } catch (const std::exception& problem) {  // one peer's garbage must not affect the others
      return self->close(problem.what());
    }
    if (self->socket_.is_open() && self->closing_.empty()) self->read();
  });
}

void Session::on_bytes(std::string_view wire) {
  if (!known() && (heard_ += wire.size()) > kHandshakeBytes) throw ProtocolError("it does not introduce itself");
  reader_.feed(channel_.receive(wire));
  write();
  if (known()) patience_.cancel();
  for (auto message = reader_.next(); message && take_; message = reader_.next()) reading([&] { take_(*message); });
}

void Session::send(const Message& message) {
  if (!socket_.is_open() || !known()) return;
  channel_.send(encode(message));
  write();
}

// Sends one piece at a time; what is added meanwhile goes with the next.
void Session::write() {
  outbox_ += channel_.take_outgoing();
  if (!under_way_.empty()) return;
  if (outbox_.empty()) return closing_.empty() ? void() : end(closing_);
  under_way_ = std::exchange(outbox_, {});
  asio::async_write(socket_, asio::buffer(under_way_), [self = shared_from_this()](const auto& error, size_t) {
    if (error) return self->end(error.message());
    self->under_way_.clear();
    self->write();
  });
}

void Session::close(const std::string& why) {
  closing_ = why;
  write();
}

void Session::end(const std::string& why) {
  boost::system::error_code ignored;
  socket_.close(ignored);
  patience_.cancel();
  take_ = nullptr;
  if (const auto closed = std::exchange(closed_, nullptr)) closed(why);
}

}  // namespace ddprun
