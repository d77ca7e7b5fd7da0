// SPDX-License-Identifier: MIT
#include "cluster/endpoint.h"

#include <ddprun/error.h>

#include <gtest/gtest.h>

#include <set>

namespace ddprun {
namespace {

Endpoint parse(const std::string& text) { return parse_endpoint({"--rdzv-endpoint", text}, 29400); }

TEST(Endpoint, HostAndPort) {
  EXPECT_EQ(parse("node1"), (Endpoint{"node1", 29400}));
  EXPECT_EQ(parse("node1.site.org:1234"), (Endpoint{"node1.site.org", 1234}));
  EXPECT_EQ(parse("[::1]"), (Endpoint{"::1", 29400}));
  EXPECT_EQ(parse("[fe80::1%eth0]:1234"), (Endpoint{"fe80::1%eth0", 1234}));
  EXPECT_EQ(parse("[::1]:1234").text(), "[::1]:1234");
  EXPECT_EQ(parse("node1").text(), "node1:29400");
}

TEST(Endpoint, AnythingElseIsRefused) {
  for (const auto* text : {"", ":1234", "node1:", "node1:0", "node1:65536", "node1:x", "::1", "fe80::1:1234", "[::1",
                           "[::1]1234", "[]:1", "a b:1", "tcp://node1:1234"}) {
    EXPECT_THROW(parse(text), UserError) << text;
  }
}

TEST(Endpoint, MasterAddressIsAHostAlone) {
  EXPECT_EQ(parse_host({"MASTER_ADDR", "::1"}), "::1");
  EXPECT_EQ(parse_host({"MASTER_ADDR", "[::1]"}), "::1");
  EXPECT_THROW(parse_host({"MASTER_ADDR", "node1:1234"}), UserError);
}

TEST(Endpoint, LoopbackIsEveryNodesOwn) {
  for (const auto* host : {"localhost", "127.0.0.1", "127.0.1.1", "::1", "localhost.localdomain"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const auto* host : {"localhost2", "node1", "10.0.0.1"}) EXPECT_FALSE(is_loopback(host)) << host;
}

// FNV-1a of "" is 2166136261, of "a" 3826002220.
TEST(PortOfJob, IsTheStatedFormula) {
  EXPECT_EQ(port_of_job(""), 26261);
  EXPECT_EQ(port_of_job("a"), 22220);
  std::set<int> ports;
  for (int job = 0; job < 100; ++job) ports.insert(port_of_job("job-" + std::to_string(job)));
  EXPECT_GT(ports.size(), 95);
}

}  // namespace
}  // namespace ddprun
