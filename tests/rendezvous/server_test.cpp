// SPDX-License-Identifier: MIT
// The server over real sockets on loopback.
#include "rendezvous/server.h"

#include "rendezvous/connection.h"
#include "rendezvous/remote_link.h"
#include "rendezvous/store_client.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <deque>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace ddprun {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr seconds kLong{60};  // who relies on it hangs

Coordinator::Start begin(int, int) { return {.attempt = 0, .run_dir = "run"}; }

ServerPlan plan(int nodes) {
  return {
      .listen = {"127.0.0.1", 0}, .secret = {"run", "token"}, .coordinator = {.min_nodes = nodes, .max_nodes = nodes}};
}

Connection connect(const RendezvousServer& server, const Secret& secret = {"run", "token"}) {
  return Connection::open({"127.0.0.1", server.port()}, secret, Connection::Clock::now() + kLong);
}

// A node's link, whose orders are taken one by one.
class Node {
 public:
  explicit Node(const RendezvousServer& server) : link_(connect(server), 30) {}

  RemoteLink* operator->() { return &link_; }

  Order next_order() {
    while (orders_.empty()) {
      pollfd polled{link_.fd(), POLLIN, 0};
      ::poll(&polled, 1, -1);
      for (auto& order : link_.take_orders()) orders_.push_back(std::move(order));
    }
    auto order = std::move(orders_.front());
    orders_.pop_front();
    return order;
  }

 private:
  RemoteLink link_;
  std::deque<Order> orders_;
};

TEST(RendezvousServer, LeadsTwoNodesThroughARun) {
  RendezvousServer server(plan(2), begin, [](bool, const std::string&) {});
  Node first(server), second(server);
  first->join({.host = "a", .workers = 1, .first = true});
  second->join({.host = "b", .workers = 1});
  EXPECT_EQ(first.next_order().kind, Order::Kind::kStart);
  EXPECT_EQ(second.next_order().start.first_rank, 1);
  WorkerEnd broken{.rank = 1, .host = "b", .exit_code = 1};
  broken.failure = WorkerFailure{.rank = 1, .time = 5, .kind = "internal", .message = std::string("a\xff\0b", 4)};
  second->failing();
  EXPECT_EQ(first.next_order().kind, Order::Kind::kAbort);
  second->ended({.workers = {broken}});
  first->ended({.workers = {{.rank = 0, .signal = 15, .killed_by_launcher = true}}});
  const auto finish = second.next_order();
  EXPECT_EQ(finish.kind, Order::Kind::kFinish);
  EXPECT_THAT(finish.text, HasSubstr("rank 1 on b failed first"));
  EXPECT_THAT(server.result().report, HasSubstr(std::string("a\xff\0b", 4)));
}

TEST(RendezvousServer, NoticesANodeThatDies) {
  RendezvousServer server(plan(2), begin, [](bool, const std::string&) {});
  Node first(server);
  first->join({.host = "a", .first = true});
  {
    Node second(server);
    second->join({.host = "b"});
    second.next_order();
  }
  EXPECT_EQ(first.next_order().kind, Order::Kind::kStart);
  EXPECT_EQ(first.next_order().kind, Order::Kind::kAbort);
}

TEST(RendezvousServer, WorkersFindEachOther) {
  RendezvousServer server(plan(1), begin, [](bool, const std::string&) {});
  const Endpoint endpoint{"127.0.0.1", server.port()};
  const Secret secret{"run", "token"};
  std::thread late([&] {
    StoreClient client(endpoint, secret, kLong);
    client.wait({"asked"}, kLong);
    client.set("key", {1, 2}, kLong);
  });
  StoreClient client(endpoint, secret, kLong);
  client.set("asked", {}, kLong);
  EXPECT_EQ(client.get({"key"}, kLong).front(), (Bytes{1, 2}));
  late.join();
}

TEST(RendezvousServer, AKeyThatNeverComesIsAnErrorAndTheClientStaysUsable) {
  RendezvousServer server(plan(1), begin, [](bool, const std::string&) {});
  StoreClient client({"127.0.0.1", server.port()}, {"run", "token"}, kLong);
  EXPECT_THROW(client.get({"never"}, std::chrono::milliseconds(1)), ConnectionLost);
  client.set("never", {3}, kLong);  // the late answer to the first question comes before this one's
  EXPECT_EQ(client.get({"never"}, kLong).front(), Bytes{3});
}

TEST(RendezvousServer, StrangersDoNotGetIn) {
  RendezvousServer server(plan(1), begin, [](bool, const std::string&) {});
  try {
    connect(server, {"run", "guess"});
    FAIL() << "it was let in";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("DDPRUN_TOKEN"));
  }
}

TEST(RendezvousServer, SurvivesAnotherProtocol) {
  RendezvousServer server(plan(1), begin, [](bool, const std::string&) {});
  {
    auto stranger = connect(server);
    stranger.send({{"steal", "keys"}});
    EXPECT_THROW(stranger.receive(Connection::Clock::now() + kLong), ConnectionLost);
  }
  StoreClient client({"127.0.0.1", server.port()}, {"run", "token"}, kLong);
  EXPECT_EQ(client.count("", kLong), 0);
}

void connect_to(const RendezvousServer& server, const UniqueFd& fd) {
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(server.port()))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

// A client that knows nothing of the handshake: it sends these bytes, and waits for the connection's end.
void send_as_a_stranger(const RendezvousServer& server, const std::string& bytes) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  connect_to(server, fd);
  for (size_t sent = 0; sent < bytes.size();) {
    const auto got = ::send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (got < 0) break;  // it has heard enough
    sent += static_cast<size_t>(got);
  }
  char rest[4096];
  while (::recv(fd.get(), rest, sizeof rest, 0) > 0) {
  }
}

TEST(RendezvousServer, SurvivesEveryKindOfStranger) {
  RendezvousServer server(plan(1), begin, [](bool, const std::string&) {});
  const auto nonce = Message::binary(Bytes(32, 7));
  send_as_a_stranger(server, "GET / HTTP/1.1\r\n\r\n");
  send_as_a_stranger(server, encode({{"ddprun", 5}}));
  send_as_a_stranger(server, encode({{"ddprun", "rendezvous"}, {"version", "one"}}));
  send_as_a_stranger(server, encode({{"ddprun", "rendezvous"}, {"version", 1}, {"id", {1, 2}}, {"nonce", nonce}}));
  send_as_a_stranger(server, encode({{"ddprun", "rendezvous"}, {"version", 1}, {"id", "run"}, {"nonce", 3}}));
  send_as_a_stranger(server, std::string("\x02\0\0\0", 4) + std::string(32 << 20, '\x91'));  // lists in lists in lists
  StoreClient client({"127.0.0.1", server.port()}, {"run", "token"}, kLong);
  EXPECT_EQ(client.count("", kLong), 0);
}

// This process's limit of open files, as it was again afterwards.
class FileLimit {
 public:
  FileLimit() { ::getrlimit(RLIMIT_NOFILE, &before_); }
  ~FileLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

  static void set(rlim_t files) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = files;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }

 private:
  rlimit before_{};
};

TEST(RendezvousServer, TakesMoreWorkersThanTheSoftLimitOfOpenFiles) {
  const FileLimit limit;
  FileLimit::set(64);
  RendezvousServer server(plan(1), begin, [](bool, const std::string&) {});
  std::vector<std::unique_ptr<StoreClient>> clients;
  for (int i = 0; i < 64; ++i)
    clients.push_back(
        std::make_unique<StoreClient>(Endpoint{"127.0.0.1", server.port()}, Secret{"run", "token"}, kLong));
  EXPECT_EQ(clients.back()->count("", kLong), 0);
}

TEST(RendezvousServer, WhoComesWhenNoFileIsLeftIsTakenInLater) {
  const FileLimit limit;
  std::promise<std::string> told;
  RendezvousServer server(plan(1), begin, [&](bool, const std::string& text) { told.set_value(text); });
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  {
    std::vector<UniqueFd> others;
    FileLimit::set(64);
    do others.emplace_back(::dup(client.get()));
    while (others.back().open());
    connect_to(server, client);
    EXPECT_THAT(told.get_future().get(), HasSubstr("Too many open files"));
  }
  char greeting = 0;
  EXPECT_EQ(::recv(client.get(), &greeting, 1, 0), 1);
}

TEST(RendezvousServer, ATakenPortIsTold) {
  RendezvousServer server(plan(1), begin, [](bool, const std::string&) {});
  auto second = plan(1);
  second.listen.port = server.port();
  EXPECT_THROW(RendezvousServer(second, begin, [](bool, const std::string&) {}), PortTaken);
}

TEST(Connection, TellsWhereNobodyListens) {
  int port = 0;
  {
    RendezvousServer server(plan(1), begin, [](bool, const std::string&) {});
    port = server.port();
  }
  try {
    Connection::open({"127.0.0.1", port}, {}, Connection::Clock::now());
    FAIL() << "somebody listens";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("nobody answers at 127.0.0.1:" + std::to_string(port)));
  }
}

}  // namespace
}  // namespace ddprun
