// SPDX-License-Identifier: MIT
// The messages between the launchers of a run's nodes and the coordinator.
#pragma once

#include "launch/attempt.h"
#include "launch/failure_report.h"
#include "rendezvous/message.h"

#include <optional>
#include <string>

namespace ddprun {

// A launcher that wants to take part.
struct NodeInfo {
  std::string host;         // for people
  std::string address;      // where its workers can be reached
  std::optional<int> rank;  // the place that it must have among the nodes; otherwise the coordinator chooses
  int workers = 1;
  std::string device;      // "cpu" or "cuda": the same on all nodes
  bool first = false;      // the coordinator's own launcher: its workers have the lowest ranks
  std::string leader_key;  // with `first`: what its server gave it (server.h)
};

// These convert to and from messages on the wire. The second of each pair throws ProtocolError for what it cannot read.
// `now` is steady_seconds() of the machine that sends or receives: an end's moments travel as ages, and become moments
// of the receiver's own clock, off by no more than the message took.
Message to_message(const NodeInfo& info);
Message to_message(const AttemptEnd& end, double now);
Message to_message(const Order& order);
NodeInfo node_info(const Message& message);
AttemptEnd attempt_end(const Message& message, double now);
Order order(const Message& message);

// Returns 0 if there was none. Throws ProtocolError for an invalid signal number.
int signal_of(const Message& message);

}  // namespace ddprun
