// SPDX-License-Identifier: MIT
// The server over real sockets on loopback.
#include "rendezvous/server.h"

#include "rendezvous/connection.h"
#include "rendezvous/control_link.h"
#include "rendezvous/store_client.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <deque>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kLong{60};  // who relies on it hangs

Order begin(int, int) { return {.attempt = {.run_dir = "run"}}; }

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
  explicit Node(const RendezvousServer& server) : link_(connect(server), 2) {}

  RemoteLink* operator->() { return &link_; }

  Order next_order() {
    while (orders_.empty()) {
      pollfd polled{link_.fd(), POLLIN, 0};
      ::poll(&polled, 1, static_cast<int>(link_.ask_within().count()));
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
  first->join({.host = "a", .workers = 1, .first = true, .leader_key = server.leader_key()});
  second->join({.host = "b", .workers = 1});
  EXPECT_EQ(first.next_order().kind, Order::Kind::kStart);
  EXPECT_EQ(second.next_order().attempt.first_rank, 1);
  WorkerEnd broken{.rank = 1, .host = "b", .exit_code = 1};
  broken.failure =
      WorkerFailure{.rank = 1, .time = 5, .kind = FailureKind::kInternal, .message = std::string("a\xff\0b", 4)};
  second->failing(0);
  EXPECT_EQ(first.next_order().kind, Order::Kind::kAbort);
  second->ended({.workers = {broken}});
  first->ended({.workers = {{.rank = 0, .signal = 15, .killed_by_launcher = true}}});
  const auto finish = second.next_order();
  EXPECT_EQ(finish.kind, Order::Kind::kFinish);
  EXPECT_THAT(finish.text, HasSubstr("rank 1 on b failed first"));
  EXPECT_THAT(server.result()->report, HasSubstr(std::string("a\xff\0b", 4)));
}

TEST(RendezvousServer, NoticesANodeThatDies) {
  RendezvousServer server(plan(2), begin, [](bool, const std::string&) {});
  Node first(server);
  first->join({.host = "a", .first = true, .leader_key = server.leader_key()});
  {
    Node second(server);
    second->join({.host = "b"});
    second.next_order();
  }
  EXPECT_EQ(first.next_order().kind, Order::Kind::kStart);
  EXPECT_EQ(first.next_order().kind, Order::Kind::kAbort);
}

// Launchers that are stopped: their machines' kernels go on answering.
TEST(RendezvousServer, ANodeThatSaysNothingIsLost) {
  auto impatient = plan(2);
  impatient.node_timeout_seconds = 2;
  RendezvousServer server(impatient, begin, [](bool, const std::string&) {});
  Node first(server), second(server);
  first->join({.host = "a", .first = true, .leader_key = server.leader_key()});
  second->join({.host = "b"});
  EXPECT_EQ(first.next_order().kind, Order::Kind::kStart);
  EXPECT_EQ(first.next_order().kind, Order::Kind::kAbort);  // while this one asks, it beats; the second does not
  first->ended({.workers = {{.rank = 0, .signal = 15, .killed_by_launcher = true}}});
  EXPECT_THAT(first.next_order().text, HasSubstr("node 1 (b) is lost: it has been silent for 2 s"));
}

TEST(RemoteLink, AServerThatSaysNothingIsLost) {
  RendezvousServer server(plan(1), begin, [](bool, const std::string&) {});  // beats every few seconds
  RemoteLink link(connect(server), 0.2);
  link.join({.host = "a"});
  const auto ask_until_lost = [&] {
    for (;;) {
      pollfd polled{link.fd(), POLLIN, 0};
      ::poll(&polled, 1, static_cast<int>(link.ask_within().count()));
      link.take_orders();
    }
  };
  EXPECT_THROW(ask_until_lost(), ConnectionLost);
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

TEST(RendezvousServer, UnknownPeersDoNotGetIn) {
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
    auto peer = connect(server);
    peer.send({{"steal", "keys"}});
    EXPECT_THROW(peer.receive(Connection::Clock::now() + kLong), ConnectionLost);
  }
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

void connect_to(const RendezvousServer& server, const UniqueFd& fd) {
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(server.port()))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

// A client that knows nothing of the handshake: it sends these bytes, and waits for the connection's end.
void send_as_an_unknown_peer(const RendezvousServer& server, const std::string& bytes) {
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

TEST(RendezvousServer, SurvivesEveryKindOfUnknownPeer) {
  RendezvousServer server(plan(1), begin, [](bool, const std::string&) {});
  send_as_an_unknown_peer(server, "GET / HTTP/1.1\r\n\r\n");
  send_as_an_unknown_peer(
      server, std::string("\x16\x03\x01\xff\xff", 5) + std::string(32 << 20, '\x91'));  // a record without end
  auto hello = TlsChannel(TlsChannel::Side::kClient, {"run", "token"}).take_outgoing();
  hello[hello.size() / 2] ^= 1;
  send_as_an_unknown_peer(server, hello);
  StoreClient client({"127.0.0.1", server.port()}, {"run", "token"}, kLong);
  EXPECT_EQ(client.count("", kLong), 0);
}

// What one who knows the secret sends; the server ends the connection, and nothing else.
void expect_refused(const RendezvousServer& server, const Message& nonsense) {
  auto peer = connect(server);
  peer.send(nonsense);
  try {
    while (peer.receive(Connection::Clock::now() + kLong)) {
    }
    ADD_FAILURE() << "nobody objected to " << nonsense.dump();
  } catch (const ConnectionLost&) {
  }
}

TEST(RendezvousServer, NonsenseOfOnePeerEndsNobodyElse) {
  RendezvousServer server(plan(1), begin, [](bool, const std::string&) {});
  Message deep = Message::array();
  for (int level = 0; level < 20; ++level) deep = Message::array({std::move(deep)});
  expect_refused(server, {{"nested", std::move(deep)}});
  auto node = to_message(NodeInfo{.host = "a", .workers = -5});
  expect_refused(server, {{"node", node}});
  auto end = to_message(AttemptEnd{.workers = {{.rank = 0, .stall = Stall{}}}}, /*now=*/1);
  end["workers"][0]["stall"][3] = "";
  expect_refused(server, {{"ended", end}});
  StoreClient client({"127.0.0.1", server.port()}, {"run", "token"}, kLong);
  EXPECT_EQ(client.count("", kLong), 0);
}

TEST(RendezvousServer, OneWhoPassesForTheFirstNodeIsSentAway) {
  RendezvousServer server(plan(2), begin, [](bool, const std::string&) {});
  expect_refused(server, {{"node", to_message(NodeInfo{.host = "b", .first = true})}});
  Node first(server), second(server);
  second->join({.host = "b"});
  first->join({.host = "a", .first = true, .leader_key = server.leader_key()});
  EXPECT_EQ(first.next_order().attempt.first_rank, 0);
}

// In a process of its own, whose hard limit nobody has to raise again. There are more unknown peers than it has files
// for both their ends.
TEST(RendezvousServer, UnknownPeersTakeNoMoreThanAQuarterOfTheFiles) {
  const auto in_is = [] {
    const rlimit few{256, 256};
    ::setrlimit(RLIMIT_NOFILE, &few);
    RendezvousServer server(plan(1), begin, [](bool, const std::string& text) { std::fputs(text.c_str(), stderr); });
    std::vector<UniqueFd> peers;
    for (int i = 0; i < 130; ++i) {
      peers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      connect_to(server, peers.back());
    }
    StoreClient client({"127.0.0.1", server.port()}, {"run", "token"}, kLong);
    return client.count("", kLong) == 0;
  };
  EXPECT_EXIT(::_exit(in_is() ? 0 : 1), ::testing::ExitedWithCode(0), "^$");
}

TEST(RendezvousServer, ManyUnknownPeersThatSayNothingKeepNobodyOut) {
  const FileLimit limit;
  FileLimit::set(4096);
  RendezvousServer server(plan(1), begin, [](bool, const std::string& text) { ADD_FAILURE() << text; });
  std::vector<UniqueFd> peers;
  for (int i = 0; i < 600; ++i) {
    peers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    connect_to(server, peers.back());
  }
  StoreClient client({"127.0.0.1", server.port()}, {"run", "token"}, kLong);
  EXPECT_EQ(client.count("", kLong), 0);
  char nothing = 0;
  EXPECT_EQ(::recv(peers.front().get(), &nothing, 1, 0), 0) << "the oldest is still there";
}

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
  const auto hello = TlsChannel(TlsChannel::Side::kClient, {"run", "token"}).take_outgoing();
  ASSERT_EQ(::send(client.get(), hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
  char answer = 0;
  EXPECT_EQ(::recv(client.get(), &answer, 1, 0), 1);
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
