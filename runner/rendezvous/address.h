// SPDX-License-Identifier: MIT
// Where nodes reach each other.
#pragma once

#include "cluster/endpoint.h"

#include <string>

namespace ddprun {

// This machine's numeric address on the way to the endpoint, as the kernel's routes say; loopback for an endpoint of
// this machine that is loopback. Nothing is sent. Throws UserError where the host is unknown or no route leads there.
std::string local_address_towards(const Endpoint& endpoint);

// Whether the endpoint's host is one of this machine's addresses: then it can listen there.
bool is_this_machine(const Endpoint& endpoint);

// "10.0.0.3 (eth0), 127.0.0.1 (lo)": this machine's addresses.
std::string own_addresses();

// "eth0": the interface that has this numeric address; empty where none has.
std::string interface_of(const std::string& address);

}  // namespace ddprun
