// SPDX-License-Identifier: MIT
// What is measured from the inside: each gives figures for one number of ranks, as JSON. Seconds, bytes.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>

namespace ddprun::scaling {

// The server and `nodes` launchers that join over loopback at once; then a worker of each that asks the store for its
// peers, as Gloo does; then all end. The server is this process, all others are threads of a second one.
nlohmann::json probe_rendezvous(int nodes);

// `ranks` threads of this process, each with a Gloo group of its own: what they ask of the store, which sockets they
// open, how long a sum of 16 bytes takes.
nlohmann::json probe_gloo(int ranks);

// The runner's own classes in a world of so many ranks, one rank after the other: which samples, metrics, checkpoints.
nlohmann::json probe_world(int64_t ranks, int64_t samples);

}  // namespace ddprun::scaling
