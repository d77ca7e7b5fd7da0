// SPDX-License-Identifier: MIT
#include "rendezvous/resolve.h"

#include <ddprun/error.h>

#include <netdb.h>

#include <cstring>
#include <memory>

namespace ddprun {

std::vector<SocketAddress> resolve(const Endpoint& endpoint, int socket_type) {
  addrinfo hints = {};
  hints.ai_socktype = socket_type;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &list);
  if (error != 0) throw UserError("the host " + endpoint.host + " is not known here: " + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const auto* at = list; at != nullptr; at = at->ai_next) {
    SocketAddress address{.family = at->ai_family, .length = at->ai_addrlen};
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
    addresses.push_back(address);
  }
  return addresses;
}

}  // namespace ddprun
