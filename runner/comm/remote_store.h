// SPDX-License-Identifier: MIT
// c10d's store over the keys and values at the run's first node (rendezvous/store_client.h), in which the ranks of
// several machines find each other.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace ddprun {

// Opens the store that a worker was given: "tcp://host:port/prefix", with DDPRUN_RENDEZVOUS_ID and DDPRUN_TOKEN as the
// run's secret, or the path of a file that all ranks of one machine see. Throws UserError if it cannot be reached.
c10::intrusive_ptr<c10d::Store> open_store(const std::string& place, int64_t world_size, double timeout_seconds);

}  // namespace ddprun
