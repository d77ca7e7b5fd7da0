// SPDX-License-Identifier: MIT
// The agent of a node that is not the first: it joins the run at the first one's server.
#pragma once

#include "agent/agent.h"
#include "agent/same_experiment.h"

namespace ddprun {

// Takes part in the run until its end, and returns the program's exit code. `common` is what must be the same on the
// first node. Throws UserError if this node cannot join.
int join_run(NodeSetup setup, const RunRequest& request, const CommonPart& common);

}  // namespace ddprun
