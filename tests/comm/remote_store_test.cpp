// SPDX-License-Identifier: MIT
// The ranks' store at the run's server, as attempts that follow each other use it.
#include "comm/stores.h"
#include "rendezvous/address.h"
#include "rendezvous/connection.h"
#include "rendezvous/server.h"

#include <ddprun/error.h>

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdlib>

namespace ddprun {
namespace {

class RemoteStore : public ::testing::Test {
 protected:
  RemoteStore() {
    for (const auto& [name, value] : secret_variables(secret_)) setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }

  c10::intrusive_ptr<c10d::Store> of_attempt(int attempt) const {
    return open_store(StorePlace{{"127.0.0.1", server_.port()}, attempt_prefix(attempt)}.text(), 2, 60);
  }

  Secret secret_{"run", "token"};
  RendezvousServer server_{{.listen = {"127.0.0.1", 0}, .secret = secret_, .coordinator = {}},
                           [](int, int) { return Order{}; },
                           [](bool, const std::string&) {}};
};

// ProcessGroupNCCL's watchdog does so when a collective fails; its monitor in the next attempt would end that one.
TEST_F(RemoteStore, WhatNcclLeavesBeneathAllPrefixesIsNotSeenByTheNextAttempt) {
  c10d::PrefixStore nccl("nccl", of_attempt(0));
  const auto beneath = nccl.getUnderlyingNonPrefixStore();
  beneath->set("exception_dump", std::string("1"));
  EXPECT_TRUE(of_attempt(0)->check({"exception_dump"}));
  EXPECT_FALSE(of_attempt(1)->check({"exception_dump"}));
  EXPECT_FALSE(c10d::PrefixStore("nccl", of_attempt(1)).getUnderlyingNonPrefixStore()->check({"exception_dump"}));
}

TEST_F(RemoteStore, ACloneAndTheNumberOfKeysAreTheAttemptsOwn) {
  const auto first = of_attempt(0), second = of_attempt(1);
  first->set("a", std::string("1"));
  first->clone()->set("b", std::string("2"));
  second->set("a", std::string("3"));
  EXPECT_EQ(first->getNumKeys(), 2);
  EXPECT_EQ(first->get_to_str("b"), "2");
  EXPECT_EQ(second->getNumKeys(), 1);
}

// torchrun's ranks have no token of their own; who has not read it in the agent's store stays outside.
TEST_F(RemoteStore, TorchrunsStoreHandsOnTheTokenWithoutWhichNobodyJoins) {
  c10d::TCPStoreOptions options{.port = 0, .isServer = true, .numWorkers = 1, .waitWorkers = false};
  const c10d::TCPStore agents("127.0.0.1", options);
  Placement placement{.host = "127.0.0.1", .port = agents.getPort(), .job_id = "job"};
  publish_server(placement, {{"127.0.0.1", server_.port()}, secret_.token});
  const auto found = find_server(placement, 60);
  EXPECT_EQ(found.endpoint.port, server_.port());
  const auto open = [&](const std::string& token) {
    return Connection::open(found.endpoint, {secret_.id, token}, Connection::Clock::now() + std::chrono::seconds(60));
  };
  EXPECT_NO_THROW(open(found.token));
  EXPECT_THROW(open(""), UserError);
}

}  // namespace
}  // namespace ddprun
