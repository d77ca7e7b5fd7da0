// SPDX-License-Identifier: MIT
// The addresses under which nodes reach each other.
#pragma once

#include "cluster/endpoint.h"

#include <sys/socket.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// Returns this machine's numeric address towards the endpoint, from the kernel's routes; loopback if the endpoint is a
// loopback address of this machine. Sends nothing. Throws UserError if the host is unknown or there is no route.
std::string local_address_towards(const Endpoint& endpoint);

// Returns true if the endpoint's host is one of this machine's addresses, so that it can listen there.
bool is_this_machine(const Endpoint& endpoint);

// Returns "10.0.0.3 (eth0), 127.0.0.1 (lo)": this machine's addresses.
std::string own_addresses();

// Returns this machine's address for the others: `wanted`, the experiment's, or that of the route to the endpoint if it
// is empty. Throws UserError if the wanted one is not an address of this machine.
std::string own_address(const std::string& wanted, const Endpoint& endpoint);

// Returns "eth0", the interface that has this numeric address; empty if there is none.
std::string interface_of(const std::string& address);

// Names to socket addresses, through getaddrinfo.
struct SocketAddress {
  int family = AF_INET;
  socklen_t length = 0;
  sockaddr_storage storage = {};

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Returns addresses in the order to try. Throws UserError for an unknown host.
std::vector<SocketAddress> resolve(const Endpoint& endpoint, int socket_type);

// The meeting place of the ranks of an attempt, as given to a worker: WorkerPlace::store, with the variables
// DDPRUN_RENDEZVOUS_ID and DDPRUN_TOKEN.
struct StorePlace {
  Endpoint endpoint;
  std::string prefix;  // of the attempt's keys

  std::string text() const;  // "tcp://node1:29400/attempt_0"
};

// Returns the prefix of an attempt's keys at the server.
std::string attempt_prefix(int attempt);

// Returns nothing if the text is a file's path instead.
std::optional<StorePlace> parse_store_place(const std::string& text);

}  // namespace ddprun
