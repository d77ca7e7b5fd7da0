// SPDX-License-Identifier: MIT
// torchrun's own store, which its agent keeps for the ranks it starts: rank 0 publishes there where the run's server
// is.
#pragma once

#include "cluster/endpoint.h"
#include "cluster/placement.h"

namespace ddprun {

// Called by rank 0. Throws UserError if the store cannot be reached.
void publish_endpoint(const Placement& placement, const Endpoint& endpoint);

// Called by the other ranks; waits for it.
Endpoint find_endpoint(const Placement& placement, double timeout_seconds);

}  // namespace ddprun
