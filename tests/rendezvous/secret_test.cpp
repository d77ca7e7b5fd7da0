// SPDX-License-Identifier: MIT
// What nodes find each other by, and trust: the server's place, the token, and the channel that both sides' secrets
// open.
#include "rendezvous/secret.h"

#include "rendezvous/address.h"
#include "rendezvous/tls_channel.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

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

namespace fs = std::filesystem;

TEST(StorePlace, IsReadAsItIsWritten) {
  for (const auto* host : {"node1", "10.0.0.1", "fe80::1"}) {
    const StorePlace place{.endpoint = {host, 29400}, .prefix = "attempt_3"};
    const auto read = parse_store_place(place.text());
    ASSERT_TRUE(read) << place.text();
    EXPECT_EQ(read->text(), place.text());
    EXPECT_EQ(read->endpoint.host, host);
    EXPECT_EQ(read->prefix, "attempt_3");
  }
  EXPECT_FALSE(parse_store_place("/tmp/ddprun-x/store")) << "a path is none";
}

class TokenFile : public FolderTest {
 protected:
  fs::path file(const std::string& content, fs::perms perms = fs::perms::owner_read) const {
    const auto path = folder_ / std::to_string(content.size());
    write(path, content);
    fs::permissions(path, perms);
    return path;
  }
};

TEST_F(TokenFile, ItsFirstLineIsTheTokenWithoutTheBlanksOfEditors) {
  const auto secret = read_secret("run", file(" \t0123abcd\r\nnot this\n"));
  EXPECT_EQ(secret.id, "run");
  EXPECT_EQ(secret.token, "0123abcd");
  EXPECT_EQ(random_token().size(), 64);
  EXPECT_NE(random_token(), random_token());
}

TEST_F(TokenFile, OneThatIsEmptyMissingOrReadByOthersIsRefusedByItsName) {
  const auto open = file("0123abcd\n", fs::perms::owner_read | fs::perms::group_read);
  for (const auto& [path, words] : {std::pair(file("\n0123abcd\n"), " cannot be read, or its first line is empty"),
                                    {folder_ / "missing", " cannot be read, or its first line is empty"}})
    EXPECT_TRUE(says(error_of([&] { read_secret("run", path); }), "launch.token_file: " + path.string() + words));
  EXPECT_TRUE(says(error_of([&] { read_secret("run", open); }), "run chmod 600 " + open.string()));
}

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

  // A side that refuses has still its alert to send.
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

TEST(TlsChannel, RefusesAnotherTokenOrRunAndSaysWhatToDoButNotWhichRunItIs) {
  for (const auto* token : {"guess", ""})
    EXPECT_TRUE(says(Pair({"run", "token"}, {"run", token}).shake_hands(), "DDPRUN_TOKEN"));
  const auto problem = Pair({"secret_name", ""}, {"run", ""}).shake_hands();
  EXPECT_TRUE(says(problem, "another run listens there"));
  EXPECT_EQ(problem.find("secret_name"), problem.npos);
  EXPECT_NE(Pair({"run", "token"}, {"runt", "oken"}).shake_hands(), "");
}

TEST(TlsChannel, IsJoinedThoughTheWallClockLeaps) {
  leaps = true;
  EXPECT_EQ(Pair({"run", "token"}, {"run", "token"}).shake_hands(), "");
  leaps = false;
  EXPECT_GT(days_ahead.exchange(0), 0);
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

TEST(TlsChannel, AChangedByteAndOtherProtocolsAreNoticed) {
  Pair pair({"run", ""}, {"run", ""});
  ASSERT_EQ(pair.shake_hands(), "");
  pair.client.send("a message");
  auto wire = pair.client.take_outgoing();
  wire.back() ^= 1;
  EXPECT_THROW(pair.server.receive(wire), ProtocolError);
  TlsChannel server(Side::kServer, {"run", ""}), client(Side::kClient, {"run", ""});
  EXPECT_THROW(server.receive("GET / HTTP/1.1\r\n\r\n"), ProtocolError);
  EXPECT_THROW(client.receive("HTTP/1.1 400 Bad Request\r\n\r\n"), ProtocolError);
}

}  // namespace
}  // namespace ddprun
