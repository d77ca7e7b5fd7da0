// SPDX-License-Identifier: MIT
// One node's part in a run: it joins, starts its workers when it is told to, tells how they ended, until the run is
// over.
#pragma once

#include "launch/launcher.h"
#include "rendezvous/control_link.h"

#include <functional>

namespace ddprun {

// What the run's end means for this node's program.
struct NodeResult {
  int exit_code = kExitFailed;
  std::string text;  // why; may be empty
  AttemptEnd last;   // how this node's workers ended in the last attempt
};

// Prepares this node for an attempt (the data of the first) and tells how to start its workers. What it throws ends the
// run.
using PlanAttempt = std::function<LaunchPlan(const StartOrder&)>;

// From the program's only thread. A coordinator that is lost ends the workers, with a text about it.
NodeResult run_node(ControlLink& link, const NodeInfo& info, const PlanAttempt& plan);

}  // namespace ddprun
