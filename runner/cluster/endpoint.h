// SPDX-License-Identifier: MIT
// The host and port where the ranks of a job meet.
#pragma once

#include "cluster/setting.h"

#include <string>

namespace ddprun {

struct Endpoint {
  std::string host;  // without brackets
  int port = 0;

  std::string text() const;  // "node1:29400", "[::1]:29400"
  bool operator==(const Endpoint&) const = default;
};

constexpr int kDefaultRdzvPort = 29400;    // torchrun's default for --rdzv-endpoint
constexpr int kDefaultMasterPort = 29500;  // torchrun's default for --master-addr

// Parses host, host:port, [IPv6] or [IPv6]:port. Throws UserError for anything else.
Endpoint parse_endpoint(const Setting& setting, int default_port);

// Parse MASTER_ADDR and MASTER_PORT, or their like: a host alone, and 1 to 65535.
std::string parse_host(const Setting& setting);
int parse_port(const Setting& setting);

// True for "localhost", 127.x.x.x and ::1, which mean another host on every node.
bool is_loopback(const std::string& host);

// Returns a port that all processes of one job compute alike and those of another job most likely do not: 20000 +
// FNV-1a of the job's name (32 bits) mod 10000, below the ports that Linux gives to outgoing connections.
int port_of_job(const std::string& name);

}  // namespace ddprun
