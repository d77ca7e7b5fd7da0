// SPDX-License-Identifier: MIT
// The server over real sockets on loopback.
#include "rendezvous/server.h"

#include "rendezvous/connection.h"
#include "rendezvous/control_link.h"
#include "rendezvous/store_client.h"
#include "support/error_of.h"

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

constexpr std::chrono::seconds kLong{60};  // what relies on it hangs
const Secret kSecret{"run", "token"};

void say_nothing(bool, const std::string&) {}

// For a run of so many nodes.
class Server : public RendezvousServer {
 public:
  explicit Server(int nodes = 1, int node_timeout_seconds = 0, int port = 0,
                  const std::function<void(bool, const std::string&)>& say = say_nothing)
      : RendezvousServer(
            plan(nodes, node_timeout_seconds, port), [](int, int) { return Order{.attempt = {.run_dir = "run"}}; },
            say) {}

  Endpoint endpoint() const { return {"127.0.0.1", port()}; }
  Connection connect(const Secret& secret = kSecret) const {
    return Connection::open(endpoint(), secret, Connection::Clock::now() + kLong);
  }

  // Whether it still serves those who know the secret.
  bool serves() const { return StoreClient(endpoint(), kSecret, kLong).count("", kLong) == 0; }

 private:
  static ServerPlan plan(int nodes, int node_timeout_seconds, int port) {
    ServerPlan plan{
        .listen = {"127.0.0.1", port}, .secret = kSecret, .coordinator = {.min_nodes = nodes, .max_nodes = nodes}};
    if (node_timeout_seconds > 0) plan.node_timeout_seconds = node_timeout_seconds;
    return plan;
  }
};

// A node's link, whose orders are taken one by one.
class Node {
 public:
  Node(const Server& server, const std::string& host, const std::string& leader_key = "", double timeout_seconds = 2)
      : link_(server.connect(), timeout_seconds) {
    link_.join({.host = host, .workers = 1, .first = !leader_key.empty(), .leader_key = leader_key});
  }

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
  Server server(2);
  Node second(server, "b"), first(server, "a", server.leader_key());
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
  EXPECT_TRUE(says(finish.text, "rank 1 on b failed first"));
  EXPECT_TRUE(says(server.result()->report, std::string_view("a\xff\0b", 4)));
}

TEST(RendezvousServer, NoticesANodeThatDies) {
  Server server(2);
  Node first(server, "a", server.leader_key());
  { Node(server, "b").next_order(); }
  EXPECT_EQ(first.next_order().kind, Order::Kind::kStart);
  EXPECT_EQ(first.next_order().kind, Order::Kind::kAbort);
}

// Launchers that are stopped: their machines' kernels still answer.
TEST(RendezvousServer, ANodeThatSaysNothingIsLost) {
  Server server(2, /*node_timeout_seconds=*/2);
  Node first(server, "a", server.leader_key()), second(server, "b");
  EXPECT_EQ(first.next_order().kind, Order::Kind::kStart);
  EXPECT_EQ(first.next_order().kind, Order::Kind::kAbort);  // while this one asks, it beats; the second does not
  first->ended({.workers = {{.rank = 0, .signal = 15, .killed_by_launcher = true}}});
  EXPECT_TRUE(says(first.next_order().text, "node 1 (b) is lost: it has been silent for 2 s"));
}

TEST(RemoteLink, AServerThatSaysNothingIsLost) {
  const Server server(2);  // beats every few seconds
  Node node(server, "a", "", 0.2);
  EXPECT_THROW(node.next_order(), ConnectionLost);
}

TEST(RendezvousServer, WorkersFindEachOther) {
  const Server server;
  std::thread late([&] {
    StoreClient client(server.endpoint(), kSecret, kLong);
    client.wait({"asked"}, kLong);
    client.set("key", {1, 2}, kLong);
  });
  StoreClient client(server.endpoint(), kSecret, kLong);
  client.set("asked", {}, kLong);
  EXPECT_EQ(client.get({"key"}, kLong).front(), (Bytes{1, 2}));
  late.join();
  EXPECT_THROW(client.get({"never"}, std::chrono::milliseconds(1)), ConnectionLost);
  client.set("never", {3}, kLong);  // the late answer to the first question comes before this one's
  EXPECT_EQ(client.get({"never"}, kLong).front(), Bytes{3}) << "the client stays usable";
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

UniqueFd make_socket() { return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

void connect_to(const Server& server, const UniqueFd& fd) {
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(server.port()))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

std::vector<UniqueFd> silent_peers(const Server& server, int count) {
  std::vector<UniqueFd> peers;
  for (int i = 0; i < count; ++i) {
    peers.push_back(make_socket());
    connect_to(server, peers.back());
  }
  return peers;
}

// A client that knows nothing of the handshake: it sends these bytes, and waits for the connection's end.
void send_as_an_unknown_peer(const Server& server, const std::string& bytes) {
  const auto fd = make_socket();
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

std::string hello() { return TlsChannel(TlsChannel::Side::kClient, kSecret).take_outgoing(); }

TEST(RendezvousServer, SurvivesEveryKindOfUnknownPeerAndLetsNoneIn) {
  const Server server;
  EXPECT_TRUE(says(error_of([&] { server.connect({"run", "guess"}); }), "DDPRUN_TOKEN"));
  auto flipped = hello();
  flipped[flipped.size() / 2] ^= 1;
  const auto endless = std::string("\x16\x03\x01\xff\xff", 5) + std::string(32 << 20, '\x91');  // a record without end
  for (const auto& bytes : {std::string("GET / HTTP/1.1\r\n\r\n"), endless, flipped})
    send_as_an_unknown_peer(server, bytes);
  EXPECT_TRUE(server.serves());
}

// What one who knows the secret sends; the server ends the connection, and nothing else.
TEST(RendezvousServer, NonsenseOfOnePeerEndsNobodyElse) {
  Server server(2);
  Message deep = Message::array();
  for (int level = 0; level < 20; ++level) deep = Message::array({std::move(deep)});
  auto end = to_message(AttemptEnd{.workers = {{.rank = 0, .stall = Stall{}}}}, /*now=*/1);
  end["workers"][0]["stall"][3] = "";
  for (const Message& nonsense : std::vector<Message>{
           {{"steal", "keys"}},
           {{"nested", std::move(deep)}},
           {{"node", to_message(NodeInfo{.host = "a", .workers = -5})}},
           {{"node", to_message(NodeInfo{.host = "b", .first = true})}},  // it passes for the first node
           {{"ended", end}}}) {
    auto peer = server.connect();
    peer.send(nonsense);
    const auto hear = [&] {
      while (peer.receive(Connection::Clock::now() + kLong)) {
      }
    };
    EXPECT_THROW(hear(), ConnectionLost) << nonsense.dump();
  }
  EXPECT_TRUE(server.serves());
  Node second(server, "b"), first(server, "a", server.leader_key());
  EXPECT_EQ(first.next_order().attempt.first_rank, 0);
}

// In a process of its own, whose hard limit nobody has to raise again. There are more unknown peers than it has files
// for both their ends.
TEST(RendezvousServer, UnknownPeersTakeNoMoreThanAQuarterOfTheFiles) {
  const auto in_is = [] {
    const rlimit few{256, 256};
    ::setrlimit(RLIMIT_NOFILE, &few);
    const Server server(1, 0, 0, [](bool, const std::string& text) { std::fputs(text.c_str(), stderr); });
    const auto peers = silent_peers(server, 130);
    return server.serves();
  };
  EXPECT_EXIT(::_exit(in_is() ? 0 : 1), ::testing::ExitedWithCode(0), "^$");
}

TEST(RendezvousServer, ManyUnknownPeersThatSayNothingKeepNobodyOut) {
  const FileLimit limit;
  FileLimit::set(4096);
  const Server server(1, 0, 0, [](bool, const std::string& text) { ADD_FAILURE() << text; });
  const auto peers = silent_peers(server, 600);
  EXPECT_TRUE(server.serves());
  char nothing = 0;
  EXPECT_EQ(::recv(peers.front().get(), &nothing, 1, 0), 0) << "the oldest is still there";
}

TEST(RendezvousServer, TakesMoreWorkersThanTheSoftLimitOfOpenFiles) {
  const FileLimit limit;
  FileLimit::set(64);
  const Server server;
  std::vector<std::unique_ptr<StoreClient>> clients;
  for (int i = 0; i < 64; ++i) clients.push_back(std::make_unique<StoreClient>(server.endpoint(), kSecret, kLong));
  EXPECT_EQ(clients.back()->count("", kLong), 0);
}

TEST(RendezvousServer, WhatComesWhenNoFileIsLeftIsTakenInLater) {
  const FileLimit limit;
  std::promise<std::string> said;
  const Server server(1, 0, 0, [&](bool, const std::string& text) { said.set_value(text); });
  const auto client = make_socket();
  {
    std::vector<UniqueFd> others;
    FileLimit::set(64);
    do others.emplace_back(::dup(client.get()));
    while (others.back().open());
    connect_to(server, client);
    EXPECT_TRUE(says(said.get_future().get(), "Too many open files"));
  }
  const auto greeting = hello();
  ASSERT_EQ(::send(client.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(greeting.size()));
  char answer = 0;
  EXPECT_EQ(::recv(client.get(), &answer, 1, 0), 1);
}

TEST(RendezvousServer, ATakenPortAndOneWhereNobodyListensAreNamed) {
  int port = 0;
  {
    const Server server;
    port = server.port();
    EXPECT_THROW(Server(1, 0, port), PortTaken);
  }
  EXPECT_TRUE(says(error_of([&] { Connection::open({"127.0.0.1", port}, {}, Connection::Clock::now()); }),
                   "nobody answers at 127.0.0.1:" + std::to_string(port)));
}

}  // namespace
}  // namespace ddprun
