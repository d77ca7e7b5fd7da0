// SPDX-License-Identifier: MIT
// What the agent of every node does: it starts the node's workers for an attempt, and informs torchrun how they failed.
#pragma once

#include "agent/agent.h"
#include "rendezvous/control_link.h"
#include "rendezvous/node_runner.h"

namespace ddprun {

// Returns how to start this node's workers for an attempt, as far as it follows from the node's setup.
LaunchPlan attempt_plan(const NodeSetup& setup, const Attempt& attempt);

// Returns the same with what the command asks for.
LaunchPlan plan_of(const NodeSetup& setup, const RunRequest& request, const Attempt& attempt);

// Runs the first node's workers, which nothing else has to be prepared for.
NodeResult run_own_node(ControlLink& link, const NodeInfo& info, const NodeSetup& setup, const RunRequest& request);

}  // namespace ddprun
