// SPDX-License-Identifier: MIT
// The addresses under which nodes reach each other.
#pragma once

#include "cluster/endpoint.h"

#include <string>

namespace ddprun {

// Returns this machine's numeric address towards the endpoint, from the kernel's routes; loopback if the endpoint is a
// loopback address of this machine. Sends nothing. Throws UserError if the host is unknown or there is no route.
std::string local_address_towards(const Endpoint& endpoint);

// Returns true if the endpoint's host is one of this machine's addresses, so that it can listen there.
bool is_this_machine(const Endpoint& endpoint);

// Returns "10.0.0.3 (eth0), 127.0.0.1 (lo)": this machine's addresses.
std::string own_addresses();

// Returns "eth0", the interface that has this numeric address; empty if there is none.
std::string interface_of(const std::string& address);

}  // namespace ddprun
