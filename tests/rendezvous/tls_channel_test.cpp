// SPDX-License-Identifier: MIT
#include "rendezvous/tls_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

// OpenSSL's wall clock: the kernel's, but for a test in which each call finds it set on by a day.
static std::atomic<long> days_ahead{0};
static std::atomic<bool> leaps{false};

extern "C" {

[[gnu::visibility("default")]] int gettimeofday(timeval* now, void*) noexcept {
  constexpr long kDay = 24 * 60 * 60;
  timespec real{};
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
  if (leaps) ++days_ahead;
  *now = {.tv_sec = real.tv_sec + days_ahead * kDay, .tv_usec = real.tv_nsec / 1000};
  return 0;
}

[[gnu::visibility("default")]] time_t time(time_t* now) noexcept {
  timeval found{};
  gettimeofday(&found, nullptr);
  if (now) *now = found.tv_sec;
  return found.tv_sec;
}
}

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using Side = TlsChannel::Side;

// A client and a server of those secrets, joined by the test.
struct Pair {
  Pair(const Secret& of_server, const Secret& of_client)
      : server(Side::kServer, of_server), client(Side::kClient, of_client) {}

  // What the client says where the server refuses it; empty where both are content.
  std::string shake_hands() try {
    for (int round = 0; round < 3; ++round) {
      hand_over(client, server);
      hand_over(server, client);
    }
    return "";
  } catch (const ProtocolError& error) {
    return error.what();
  }

  // A side that refuses has still its alert to tell.
  static void hand_over(TlsChannel& from, TlsChannel& to) {
    try {
      to.receive(from.take_outgoing());
    } catch (const ProtocolError&) {
      from.receive(to.take_outgoing());
      throw;
    }
  }

  TlsChannel server, client;
};

TEST(TlsChannel, CarriesBytesBothWaysOnceBothHaveProvedTheSecret) {
  Pair pair({"run", "token"}, {"run", "token"});
  ASSERT_EQ(pair.shake_hands(), "");
  ASSERT_TRUE(pair.server.established());
  const std::string many(100'000, 'x');
  pair.client.send(many);
  const auto wire = pair.client.take_outgoing();
  EXPECT_EQ(wire.find("xxxx"), wire.npos);
  EXPECT_EQ(pair.server.receive(wire), many);
  pair.server.send("answer");
  EXPECT_EQ(pair.client.receive(pair.server.take_outgoing()), "answer");
}

TEST(TlsChannel, RefusesAnotherTokenAndSaysWhatToDo) {
  EXPECT_THAT(Pair({"run", "token"}, {"run", "guess"}).shake_hands(), HasSubstr("DDPRUN_TOKEN"));
  EXPECT_THAT(Pair({"run", "token"}, {"run", ""}).shake_hands(), HasSubstr("DDPRUN_TOKEN"));
}

TEST(TlsChannel, RefusesAnotherRunWithoutSayingWhich) {
  const auto problem = Pair({"secret_name", ""}, {"run", ""}).shake_hands();
  EXPECT_THAT(problem, HasSubstr("another run listens there"));
  EXPECT_EQ(problem.find("secret_name"), problem.npos);
}

TEST(TlsChannel, IsJoinedThoughTheWallClockLeaps) {
  leaps = true;
  EXPECT_EQ(Pair({"run", "token"}, {"run", "token"}).shake_hands(), "");
  leaps = false;
  EXPECT_GT(days_ahead.exchange(0), 0);
}

TEST(TlsChannel, IdAndTokenAreNotMistakenForEachOther) {
  EXPECT_NE(Pair({"run", "token"}, {"runt", "oken"}).shake_hands(), "");
}

TEST(TlsChannel, ARecordedClientProvesNothingToAnotherServer) {
  const Secret secret{"run", "token"};
  TlsChannel first(Side::kServer, secret), second(Side::kServer, secret), client(Side::kClient, secret);
  const auto hello = client.take_outgoing();
  first.receive(hello);
  client.receive(first.take_outgoing());
  const auto finished = client.take_outgoing();
  second.receive(hello);
  EXPECT_THROW(second.receive(finished), ProtocolError);
  EXPECT_FALSE(second.established());
}

TEST(TlsChannel, AChangedByteIsNoticed) {
  Pair pair({"run", ""}, {"run", ""});
  ASSERT_EQ(pair.shake_hands(), "");
  pair.client.send("a message");
  auto wire = pair.client.take_outgoing();
  wire.back() ^= 1;
  EXPECT_THROW(pair.server.receive(wire), ProtocolError);
}

TEST(TlsChannel, RefusesOtherProtocols) {
  TlsChannel server(Side::kServer, {"run", ""}), client(Side::kClient, {"run", ""});
  EXPECT_THROW(server.receive("GET / HTTP/1.1\r\n\r\n"), ProtocolError);
  EXPECT_THROW(client.receive("HTTP/1.1 400 Bad Request\r\n\r\n"), ProtocolError);
}

}  // namespace
}  // namespace ddprun
