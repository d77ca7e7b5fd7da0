// SPDX-License-Identifier: MIT
// Runs one node's part of a run: it joins, starts its workers when asked to and reports how they ended, until the run
// is over.
#pragma once

#include "launch/launcher.h"
#include "rendezvous/control_link.h"

#include <functional>

namespace ddprun {

// The run's end as seen by this node's program.
struct NodeResult {
  int exit_code = kExitFailed;
  std::string text;  // the reason; may be empty
  LaunchResult own;  // how this node's workers ended in the last attempt
};

// Prepares this node for an attempt (for the first, also its data) and returns how to start its workers. What it throws
// ends the run.
using PlanAttempt = std::function<LaunchPlan(const Order&)>;

// Call it from the program's only thread. Losing the coordinator ends the workers, with a text about it.
NodeResult run_node(ControlLink& link, const NodeInfo& info, const PlanAttempt& plan);

}  // namespace ddprun
