// SPDX-License-Identifier: MIT
#include "rendezvous/control_link.h"

#include "base/clock.h"
#include "base/log.h"

namespace ddprun {
namespace {

constexpr int kCoordinator = 0;
using Clock = Connection::Clock;

}  // namespace

RemoteLink RemoteLink::open(const Endpoint& endpoint, const Secret& secret, Connection::Clock::time_point deadline,
                            double node_timeout_seconds) {
  return {Connection::open(endpoint, secret, deadline), node_timeout_seconds};
}

RemoteLink::RemoteLink(Connection connection, double node_timeout_seconds)
    : connection_(std::move(connection)),
      node_timeout_seconds_(node_timeout_seconds),
      liveness_(node_timeout_seconds),
      next_beat_(Clock::now()) {
  liveness_.seen(kCoordinator, Clock::now());
}

void RemoteLink::join(const NodeInfo& info) { connection_.send({{"node", to_message(info)}}); }

void RemoteLink::started(int attempt) { connection_.send({{"started", attempt}}); }

void RemoteLink::failing(int attempt) { connection_.send({{"failing", attempt}}); }

void RemoteLink::ended(const AttemptEnd& end) { connection_.send({{"ended", to_message(end, steady_seconds())}}); }

void RemoteLink::signalled(int signal, bool at_once) { connection_.send({{"signal", signal}, {"at_once", at_once}}); }

void RemoteLink::beat() { connection_.send({{"beat", true}}); }

std::vector<Order> RemoteLink::take_orders() {
  std::vector<Order> orders;
  while (const auto message = connection_.receive(Clock::now())) {
    liveness_.seen(kCoordinator, Clock::now());
    if (!message->contains("beat")) orders.push_back(order(*message));
  }
  if (!liveness_.silent(Clock::now()).empty())
    throw ConnectionLost(
        log::text("it has been silent for ", node_timeout_seconds_, " s (launch.node_timeout_seconds)"));
  if (Clock::now() >= next_beat_) {
    beat();
    next_beat_ = Clock::now() + ask_within();
  }
  return orders;
}

}  // namespace ddprun
