// SPDX-License-Identifier: MIT
// c10d's store over the keys and values at the run's first node (rendezvous/store_client.h), in which the ranks of
// several machines find each other.
#pragma once

#include "cluster/endpoint.h"
#include "cluster/placement.h"

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace ddprun {

// Opens the store that a worker was given: "tcp://host:port/prefix", with DDPRUN_RENDEZVOUS_ID and DDPRUN_TOKEN as the
// run's secret, or the path of a file that all ranks of one machine see. Throws UserError if it cannot be reached.
c10::intrusive_ptr<c10d::Store> open_store(const std::string& place, int64_t world_size, double timeout_seconds);

// What rank 0 publishes in torchrun's own store, which its agent keeps for the ranks it starts: where the run's server
// is, and the run's token, so that only who reaches that store can join.
struct FoundServer {
  Endpoint endpoint;
  std::string token;
};

// Called by rank 0. Throws UserError if the store cannot be reached.
void publish_server(const Placement& placement, const FoundServer& server);

// Called by the other ranks; waits for it.
FoundServer find_server(const Placement& placement, double timeout_seconds);

}  // namespace ddprun
