// SPDX-License-Identifier: MIT
// c10d's store over the keys and values at the run's first node (rendezvous/store_client.h): where the ranks of several
// machines find each other.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace ddprun {

// How a worker is told of the rendezvous, and reads it again: "tcp://host:port/prefix", or the path of a file that all
// ranks of one machine see. With DDPRUN_RENDEZVOUS_ID and DDPRUN_TOKEN as the run's secret. Throws UserError where it
// cannot be reached.
c10::intrusive_ptr<c10d::Store> open_store(const std::string& place, int64_t world_size, double timeout_seconds);

}  // namespace ddprun
