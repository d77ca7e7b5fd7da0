// SPDX-License-Identifier: MIT
#include "rendezvous/address.h"

#include "base/spawn.h"

#include <ddprun/error.h>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

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

std::string own_address(const std::string& wanted, const Endpoint& endpoint) {
  if (wanted.empty()) return local_address_towards(endpoint);
  if (is_this_machine({wanted, 0})) return wanted;
  throw UserError("launch.address: " + wanted + " is not an address of this machine, which has " + own_addresses() +
                  ". Give each node its own, or omit it to use the one on the route to " + endpoint.text());
}

namespace {

constexpr std::string_view kScheme = "tcp://";
}  // namespace

std::string attempt_prefix(int attempt) { return "attempt_" + std::to_string(attempt); }

std::string StorePlace::text() const { return std::string(kScheme) + endpoint.text() + "/" + prefix; }

std::optional<StorePlace> parse_store_place(const std::string& text) {
  if (!text.starts_with(kScheme)) return std::nullopt;
  const auto slash = text.find('/', kScheme.size());
  if (slash == text.npos) return std::nullopt;
  const auto where = text.substr(kScheme.size(), slash - kScheme.size());
  return StorePlace{parse_endpoint({"store", where}, 0), text.substr(slash + 1)};
}

}  // namespace ddprun
