// SPDX-License-Identifier: MIT
#include "rendezvous/remote_link.h"

#include "rendezvous/keep_alive.h"

namespace ddprun {

RemoteLink::RemoteLink(Connection connection, double node_timeout_seconds) : connection_(std::move(connection)) {
  keep_alive(connection_.fd(), node_timeout_seconds);
}

void RemoteLink::join(const NodeInfo& info) { connection_.send({{"node", to_message(info)}}); }

void RemoteLink::failing() { connection_.send({{"failing", true}}); }

void RemoteLink::ended(const AttemptEnd& end) { connection_.send({{"ended", to_message(end)}}); }

void RemoteLink::signalled(int signal, bool at_once) { connection_.send({{"signal", signal}, {"at_once", at_once}}); }

std::vector<Order> RemoteLink::take_orders() {
  std::vector<Order> orders;
  while (const auto message = connection_.receive(Connection::Clock::now())) orders.push_back(order(*message));
  return orders;
}

}  // namespace ddprun
