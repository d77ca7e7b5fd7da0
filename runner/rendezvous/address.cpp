// SPDX-License-Identifier: MIT
#include "rendezvous/address.h"

#include "base/spawn.h"
#include "rendezvous/resolve.h"

#include <ddprun/error.h>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace ddprun {
namespace {

std::string numeric(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST] = "";
  if (::getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return host;
}

socklen_t length_of(const sockaddr* address) {
  return address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

bool has_address(const sockaddr* address) {
  return address != nullptr && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

// Calls `take` for each interface address of this machine until it returns true.
template <class Take>
bool any_interface(const Take& take) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const auto* at = list; at != nullptr; at = at->ifa_next) {
    if (has_address(at->ifa_addr) && take(std::string(at->ifa_name), numeric(at->ifa_addr, length_of(at->ifa_addr))))
      return true;
  }
  return false;
}

}  // namespace

std::string local_address_towards(const Endpoint& endpoint) {
  int problem = 0;
  for (const auto& target : resolve(endpoint, SOCK_DGRAM)) {
    const UniqueFd probe(::socket(target.family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!probe.open() || ::connect(probe.get(), target.get(), target.length) != 0) {
      problem = errno;
      continue;
    }
    sockaddr_storage own = {};
    socklen_t length = sizeof own;
    ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&own), &length);
    return numeric(reinterpret_cast<sockaddr*>(&own), length);
  }
  throw UserError("there is no route to " + endpoint.text() + ": " + std::strerror(problem));
}

bool is_this_machine(const Endpoint& endpoint) {
  for (const auto& target : resolve(endpoint, SOCK_STREAM)) {
    const auto address = numeric(target.get(), target.length);
    if (is_loopback(address)) return true;
    if (any_interface([&](const std::string&, const std::string& own) { return own == address; })) return true;
  }
  return false;
}

std::string own_addresses() {
  std::string text;
  any_interface([&](const std::string& name, const std::string& own) {
    text += (text.empty() ? "" : ", ") + own + " (" + name + ")";
    return false;
  });
  return text;
}

std::string interface_of(const std::string& address) {
  std::string found;
  any_interface([&](const std::string& name, const std::string& own) {
    if (own == address) found = name;
    return own == address;
  });
  return found;
}

}  // namespace ddprun
