// SPDX-License-Identifier: MIT
// torchrun's own store, which its agent keeps for the ranks it starts: there rank 0 tells the others where the run's
// server is.
#pragma once

#include "cluster/endpoint.h"
#include "cluster/placement.h"

namespace ddprun {

// Rank 0. Throws UserError where the store cannot be reached.
void publish_endpoint(const Placement& placement, const Endpoint& endpoint);

// The others: waits for it.
Endpoint find_endpoint(const Placement& placement, double timeout_seconds);

}  // namespace ddprun
