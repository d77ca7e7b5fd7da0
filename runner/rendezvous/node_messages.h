// SPDX-License-Identifier: MIT
// The messages between the launchers of a run's nodes and the coordinator.
#pragma once

#include "launch/failure_report.h"
#include "rendezvous/message.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

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

struct StartOrder {
  int attempt = 0;
  std::string run_dir;
  std::string mark;        // in run_dir; a node that finds it sees that folder (launch/run_folder.h)
  std::string first_node;  // name of the first node, which has the folder
  std::string checkpoint;  // to resume from; empty: start from scratch
  int node = 0;            // this node's place, 0 .. nodes - 1
  int nodes = 1;
  int first_rank = 0;  // of this node's workers
  int world_size = 1;
  std::map<std::string, std::string> experiment;  // what the first node trains: the others compare it with theirs
};

struct Order {
  enum class Kind {
    kStart,
    kStop,    // save and end
    kAbort,   // end: a worker failed
    kKill,    // end at once: the user sent a second signal
    kFinish,  // the run is over
  };
  Kind kind = Kind::kFinish;
  StartOrder start;   // kStart
  int exit_code = 0;  // kFinish
  std::string text;   // the reason, for people; may be empty
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
