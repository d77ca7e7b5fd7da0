// SPDX-License-Identifier: MIT
// Names to socket addresses, through getaddrinfo.
#pragma once

#include "rendezvous/address.h"

#include <sys/socket.h>

#include <vector>

namespace ddprun {

struct SocketAddress {
  int family = AF_INET;
  socklen_t length = 0;
  sockaddr_storage storage = {};

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Returns addresses in the order to try. Throws UserError for an unknown host.
std::vector<SocketAddress> resolve(const Endpoint& endpoint, int socket_type);

}  // namespace ddprun
