// SPDX-License-Identifier: MIT
#include "rendezvous/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

// What the server answers a client of that secret.
Message answer(const Secret& server_secret, const Secret& client_secret) {
  const ServerHandshake server(server_secret);
  ClientHandshake client(client_secret);
  return server.answer(client.reply(server.greeting()));
}

TEST(Handshake, BothSidesProveTheSecret) {
  const Secret secret{"run", "token"};
  const ServerHandshake server(secret);
  ClientHandshake client(secret);
  EXPECT_NO_THROW(client.check(server.answer(client.reply(server.greeting()))));
}

TEST(Handshake, RefusesAnotherToken) {
  EXPECT_THAT(answer({"run", "token"}, {"run", "guess"}).value("error", ""), HasSubstr("DDPRUN_TOKEN"));
  EXPECT_THAT(answer({"run", "token"}, {"run", ""}).value("error", ""), HasSubstr("DDPRUN_TOKEN"));
}

TEST(Handshake, NamesTheOtherRun) {
  EXPECT_THAT(answer({"a", ""}, {"b", ""}).value("error", ""), HasSubstr("of id \"a\", not \"b\""));
}

TEST(Handshake, AReplayedReplyProvesNothing) {
  const Secret secret{"run", "token"};
  const ServerHandshake first(secret), second(secret);
  ClientHandshake client(secret);
  const auto reply = client.reply(first.greeting());
  EXPECT_TRUE(first.answer(reply).contains("proof"));
  EXPECT_TRUE(second.answer(reply).contains("error"));
}

TEST(Handshake, RefusesAServerThatDoesNotKnowTheToken) {
  const Secret theirs{"run", "guess"}, ours{"run", "token"};
  const ServerHandshake server(theirs);
  ClientHandshake client(ours);
  client.reply(server.greeting());
  EXPECT_THROW(client.check({{"proof", Message::binary(Bytes(32, 0))}}), ProtocolError);
}

TEST(Handshake, TellsOfAnotherVersion) {
  const Secret secret;
  ClientHandshake client(secret);
  auto greeting = ServerHandshake(secret).greeting();
  greeting["version"] = 99;
  try {
    client.reply(greeting);
    FAIL() << "it was taken";
  } catch (const ProtocolError& error) {
    EXPECT_THAT(error.what(), HasSubstr("its protocol is 99"));
  }
}

}  // namespace
}  // namespace ddprun
