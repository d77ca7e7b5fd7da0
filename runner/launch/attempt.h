// SPDX-License-Identifier: MIT
// What the coordinator of a run asks of its nodes: to start an attempt, to end it, and that the run is over.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace ddprun {

// One attempt of a run. The coordinator decides it; every node gets it, and hands it on to its workers.
struct Attempt {
  int number = 0;           // counted from 0 over the whole run
  int node = 0, nodes = 1;  // this node's place; a rank that an engine has started is a node of its own
  int first_rank = 0;       // of this node's workers, whose ranks are consecutive
  int world_size = 1;       // the workers of all nodes
  std::filesystem::path run_dir;
  std::filesystem::path checkpoint;  // a verified one to continue from, or to use; empty: the run begins
  std::string mark;                  // in run_dir; a node that finds it sees that folder (launch/run_folder.h)
  std::string first_node;            // name of the first node, which has the folder
};

// Calls `visit` with each field and its name in messages and files (launch/fields.h).
void visit_fields(Attempt& attempt, const auto& visit) {
  visit("number", attempt.number);
  visit("node", attempt.node);
  visit("nodes", attempt.nodes);
  visit("first_rank", attempt.first_rank);
  visit("world_size", attempt.world_size);
  visit("run_dir", attempt.run_dir);
  visit("checkpoint", attempt.checkpoint);
  visit("mark", attempt.mark);
  visit("first_node", attempt.first_node);
}

struct Order {
  enum class Kind {  // while workers run, later ones take precedence
    kStart,
    kStop,    // save and end
    kAbort,   // end: a worker failed
    kKill,    // end at once: the user sent a second signal
    kFinish,  // the run is over
  };
  Kind kind = Kind::kFinish;
  Attempt attempt;                                // kStart
  std::map<std::string, std::string> experiment;  // kStart: what the first node trains; the others compare theirs
  int exit_code = 0;                              // kFinish
  std::string text;                               // the reason, for people; may be empty
};

}  // namespace ddprun
