// SPDX-License-Identifier: MIT
// The ranks' store at the run's server, as attempts that follow each other use it.
#include "comm/stores.h"
#include "rendezvous/address.h"
#include "rendezvous/server.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

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
                           [](int, int) { return Coordinator::Start{}; },
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

}  // namespace
}  // namespace ddprun
