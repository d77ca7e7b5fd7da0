// SPDX-License-Identifier: MIT
#include "rendezvous/connection.h"

#include "rendezvous/address.h"

#include <ddprun/error.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ddprun {
namespace {

using Clock = Connection::Clock;
using std::chrono::milliseconds;

constexpr milliseconds kOneTry{5000};  // per attempt to connect, and for the handshake
constexpr milliseconds kBetweenTries{200};

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, 60'000));
}

// Returns false if the deadline comes first.
bool wait_for(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    pollfd polled{fd, events, 0};
    const int ready = ::poll(&polled, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if ((ready == 0 || errno == EINTR) && Clock::now() >= deadline) return false;
    if (ready < 0 && errno != EINTR) throw ConnectionLost(std::strerror(errno));
  }
}

// Sends small messages at once, and lets the kernel too notice a peer whose machine vanished, not only missing beats.
void set_options(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

// Returns a closed descriptor, with errno, if nobody listens.
UniqueFd connect_to(const SocketAddress& address, Clock::time_point deadline) {
  UniqueFd fd(::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.open()) return fd;
  set_options(fd.get());
  if (::connect(fd.get(), address.get(), address.length) == 0) return fd;
  if (errno != EINPROGRESS) return UniqueFd();
  int error = ETIMEDOUT;
  socklen_t length = sizeof error;
  if (wait_for(fd.get(), POLLOUT, deadline)) ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error == 0) return fd;
  errno = error;
  return UniqueFd();
}

UniqueFd connect_to(const Endpoint& endpoint, std::string& problem) try {
  for (const auto& address : resolve(endpoint, SOCK_STREAM)) {
    auto fd = connect_to(address, Clock::now() + kOneTry);
    if (fd.open()) return fd;
    problem = std::strerror(errno);
  }
  return UniqueFd();
} catch (const UserError& error) {  // the name is not known yet: pods start in any order
  problem = error.what();
  return UniqueFd();
}

}  // namespace

Connection Connection::open(const Endpoint& endpoint, const Secret& secret, Clock::time_point deadline,
                            const std::function<bool()>& interrupted) {
  std::string problem = "not tried";
  do {
    auto fd = connect_to(endpoint, problem);
    if (fd.open()) try {
        Connection connection(std::move(fd), endpoint.text(), secret);
        connection.introduce();
        return connection;
      } catch (const ConnectionLost& error) {  // it may be about to end, and another about to begin there
        problem = error.what();
      } catch (const ProtocolError& error) {
        throw UserError("cannot join the run at " + endpoint.text() + ": " + error.what());
      }
    if (interrupted && interrupted()) throw ConnectionLost("interrupted");
    ::poll(nullptr, 0, static_cast<int>(kBetweenTries.count()));
  } while (Clock::now() < deadline);
  throw UserError("nobody answers at " + endpoint.text() + " (" + problem +
                  "). Has the first node been started, and is this its address?");
}

void Connection::introduce() {
  const auto deadline = Clock::now() + kOneTry;
  flush();
  while (!channel_.established()) {
    if (!take_bytes(deadline)) throw ConnectionLost(peer_ + " does not answer");
  }
}

void Connection::send(const Message& message) {
  channel_.send(encode(message));
  flush();
}

void Connection::flush() {
  const auto wire = channel_.take_outgoing();
  for (size_t sent = 0; sent < wire.size();) {
    const ssize_t got = ::send(socket_.get(), wire.data() + sent, wire.size() - sent, MSG_NOSIGNAL);
    if (got >= 0) {
      sent += static_cast<size_t>(got);
    } else if (errno == EAGAIN) {
      if (!wait_for(socket_.get(), POLLOUT, Clock::now() + kOneTry)) throw ConnectionLost(peer_ + " does not read");
    } else if (errno != EINTR) {
      throw ConnectionLost("lost the connection to " + peer_ + ": " + std::strerror(errno));
    }
  }
}

std::optional<Message> Connection::receive(Clock::time_point deadline) {
  for (;;) {
    if (auto message = reader_.next()) return message;
    if (!take_bytes(deadline)) return std::nullopt;
  }
}

// Reads once. Returns false if the deadline comes first.
bool Connection::take_bytes(Clock::time_point deadline) {
  std::array<char, 64 << 10> buffer;
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got > 0) {
      reader_.feed(channel_.receive({buffer.data(), static_cast<size_t>(got)}));
      flush();
      return true;
    }
    if (got == 0) throw ConnectionLost(peer_ + " has closed the connection");
    if (errno == EAGAIN) {
      if (!wait_for(socket_.get(), POLLIN, deadline)) return false;
    } else if (errno != EINTR) {
      throw ConnectionLost("lost the connection to " + peer_ + ": " + std::strerror(errno));
    }
  }
}

}  // namespace ddprun
