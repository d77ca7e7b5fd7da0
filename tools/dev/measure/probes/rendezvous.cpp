// SPDX-License-Identifier: MIT
#include "base/spawn.h"
#include "probes.h"
#include "process_cost.h"
#include "rendezvous/control_link.h"
#include "rendezvous/server.h"
#include "rendezvous/store_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <csignal>
#include <thread>

namespace ddprun::scaling {
namespace {

constexpr std::chrono::seconds kPatience{600};
constexpr size_t kAddressBytes = 154;  // as probe_gloo() finds them
const Secret kSecret{"scaling", "token"};

template <class T>
void tell(int fd, const T& value) {
  if (::write(fd, &value, sizeof value) != sizeof value) throw std::runtime_error("the other process is gone");
}

template <class T>
T hear(int fd) {
  T value{};
  if (::read(fd, &value, sizeof value) != sizeof value) throw std::runtime_error("the other process is gone");
  return value;
}

// What the parent tells the process of the nodes: where its server listens, and how the first node proves that it is
// its own.
struct Invitation {
  int port = 0;
  std::array<char, 256> leader_key{};
};

// What one launcher and one of its workers do. Waits at `together` after each part.
class Node {
 public:
  Node(int rank, int nodes, const Invitation& invitation)
      : rank_(rank),
        nodes_(nodes),
        endpoint_{"127.0.0.1", invitation.port},
        leader_key_(invitation.leader_key.data()) {}

  void join() {
    const auto deadline = Connection::Clock::now() + kPatience;
    link_ = std::make_unique<RemoteLink>(Connection::open(endpoint_, kSecret, deadline), 30);
    link_->join({.host = "node" + std::to_string(rank_),
                 .address = "127.0.0.1",
                 .device = "cpu",
                 .first = rank_ == 0,
                 .leader_key = rank_ == 0 ? leader_key_ : ""});
    while (link_->take_orders().empty()) {
      pollfd polled{link_->fd(), POLLIN, 0};
      ::poll(&polled, 1, -1);
    }
  }

  // As Gloo does: its own address first, then for each peer one request to wait and one to read.
  void find_peers() {
    StoreClient store(endpoint_, kSecret, kPatience);
    store.set(key(rank_), Bytes(kAddressBytes), kPatience);
    for (const int peer : {(rank_ + 1) % nodes_, (rank_ + nodes_ - 1) % nodes_}) {
      store.wait({key(peer)}, kPatience);
      store.get({key(peer)}, kPatience);
    }
  }

  void end() { link_->ended({.workers = {{.rank = rank_, .exit_code = kExitDone}}}); }

  void leave() {
    while (link_->take_orders().empty()) {
      pollfd polled{link_->fd(), POLLIN, 0};
      ::poll(&polled, 1, -1);
    }
    link_.reset();
  }

 private:
  static std::string key(int rank) { return "attempt_0/gloo/" + std::to_string(rank); }

  int rank_, nodes_;
  Endpoint endpoint_;
  std::string leader_key_;
  std::unique_ptr<RemoteLink> link_;
};

// The second process. Writes to its parent after each part, and waits for its answer.
void be_all_nodes(int nodes, int in, int out) {
  const auto invitation = hear<Invitation>(in);
  Stopwatch watch;
  std::barrier together(nodes, [&]() noexcept {
    tell(out, watch.seconds());
    hear<int>(in);
    watch = Stopwatch();
  });
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < nodes; ++rank) {
    threads.emplace_back([&, rank] {
      Node node(rank, nodes, invitation);
      together.arrive_and_wait();
      node.join();
      together.arrive_and_wait();
      node.find_peers();
      together.arrive_and_wait();
      node.end();
      node.leave();
      together.arrive_and_wait();
    });
  }
}

}  // namespace

nlohmann::json probe_rendezvous(int nodes) {
  raise_file_limit();
  auto to_nodes = make_pipe(), from_nodes = make_pipe();
  ::fcntl(to_nodes.read.get(), F_SETFL, 0);
  ::fcntl(from_nodes.read.get(), F_SETFL, 0);
  if (const auto pid = ::fork(); pid == 0) {
    be_all_nodes(nodes, to_nodes.read.get(), from_nodes.write.get());
    ::_exit(0);
  }
  from_nodes.write.reset();
  const auto rss_before = status_number("VmRSS");
  const auto begin = [](int, int) { return Order{.attempt = {.run_dir = "run"}}; };
  ServerPlan plan;
  plan.listen = {"127.0.0.1", 0};
  plan.secret = kSecret;
  plan.coordinator.min_nodes = plan.coordinator.max_nodes = nodes;
  RendezvousServer server(plan, begin, [](bool, const std::string&) {});
  Invitation invitation{.port = server.port()};
  server.leader_key().copy(invitation.leader_key.data(), invitation.leader_key.size() - 1);
  tell(to_nodes.write.get(), invitation);
  hear<double>(from_nodes.read.get());  // its threads are there
  nlohmann::json figures;
  for (const auto* part : {"join", "store", "end"}) {
    const auto cpu_before = cpu_seconds();
    tell(to_nodes.write.get(), 0);
    figures[std::string(part) + "_seconds"] = hear<double>(from_nodes.read.get());
    figures[std::string(part) + "_server_cpu_seconds"] = cpu_seconds() - cpu_before;
    figures[std::string(part) + "_server_bytes_per_node"] = (status_number("VmRSS") - rss_before) / nodes;
  }
  tell(to_nodes.write.get(), 0);
  ::wait(nullptr);
  return figures;
}

}  // namespace ddprun::scaling
