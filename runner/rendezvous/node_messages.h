// SPDX-License-Identifier: MIT
// What the launchers of a run's nodes tell the coordinator, and what it tells them.
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
  std::string address;      // where its workers are reached
  std::optional<int> rank;  // the place that it must have among the nodes; else the coordinator chooses
  int workers = 1;
  std::string device;  // "cpu" or "cuda": the same on all nodes
  bool first = false;  // the coordinator's own launcher: its workers have the lowest ranks
};

// "Start your workers."
struct StartOrder {
  int attempt = 0;
  std::string run_dir;
  std::string mark;        // in it, by which a node finds whether it sees that folder (launch/run_folder.h)
  std::string keeper;      // the name of the first node, where it is
  std::string checkpoint;  // to go on from; empty: from the start
  int node = 0;            // this node's place, 0 .. nodes - 1
  int nodes = 1;
  int first_rank = 0;  // of this node's workers
  int world_size = 1;
  double started_at = 0;                          // seconds since 1970, of the command
  std::map<std::string, std::string> experiment;  // what the first node trains: the others compare it with theirs
};

struct Order {
  enum class Kind {
    kStart,
    kStop,    // save and end
    kAbort,   // end: somebody failed
    kKill,    // end at once: the user asked twice
    kFinish,  // the run is over
  };
  Kind kind = Kind::kFinish;
  StartOrder start;   // kStart
  int exit_code = 0;  // kFinish
  std::string text;   // for people: why; may be empty
};

// As messages of the wire. The second of each pair throws ProtocolError for what it cannot read.
Message to_message(const NodeInfo& info);
Message to_message(const AttemptEnd& end);
Message to_message(const Order& order);
NodeInfo node_info(const Message& message);
AttemptEnd attempt_end(const Message& message);
Order order(const Message& message);

// 0 where there was none. Throws ProtocolError for a number that no signal has.
int signal_of(const Message& message);

}  // namespace ddprun
