// SPDX-License-Identifier: MIT
#include "cluster/endpoint.h"

#include <ddprun/error.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace ddprun {
namespace {

[[noreturn]] void refuse(const Setting& setting) {
  throw UserError(setting.text() + ": expected host, host:port or [IPv6 address]:port, such as node1:29400");
}

bool is_host(const std::string& host) {
  const auto is_bad = [](unsigned char letter) { return letter <= ' ' || letter == 0x7F || letter == '/'; };
  return !host.empty() && std::ranges::none_of(host, is_bad);
}

}  // namespace

std::string Endpoint::text() const {
  const bool brackets = host.find(':') != std::string::npos;
  return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Endpoint parse_endpoint(const Setting& setting, int default_port) {
  const auto& text = setting.value;
  Endpoint endpoint{.port = default_port};
  std::optional<std::string> port;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string::npos) refuse(setting);
    endpoint.host = text.substr(1, close - 1);
    const auto rest = text.substr(close + 1);
    if (!rest.empty() && rest[0] != ':') refuse(setting);
    if (!rest.empty()) port = rest.substr(1);
  } else {
    const auto colon = text.find(':');
    if (colon != text.rfind(':')) refuse(setting);  // an IPv6 address without brackets is ambiguous
    endpoint.host = text.substr(0, colon);
    if (colon != std::string::npos) port = text.substr(colon + 1);
  }
  if (!is_host(endpoint.host) || (port && port->empty())) refuse(setting);
  if (port) endpoint.port = parse_port({"port of " + setting.name, *port});
  return endpoint;
}

std::string parse_host(const Setting& setting) {
  auto host = setting.value;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (!is_host(host) || std::ranges::count(host, ':') == 1)
    throw UserError(setting.text() + ": expected a host without a port, such as node1");
  return host;
}

int parse_port(const Setting& setting) { return setting.number(1, 65535); }

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.") || host.starts_with("localhost.");
}

int port_of_job(const std::string& name) {
  uint32_t hash = 2166136261U;
  for (const unsigned char byte : name) hash = (hash ^ byte) * 16777619U;
  return 20000 + static_cast<int>(hash % 10000U);
}

}  // namespace ddprun
