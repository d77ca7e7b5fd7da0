// SPDX-License-Identifier: MIT
// Decides for all nodes of a run together: when an attempt starts and with which nodes, that one node's failure ends it
// everywhere, whether it is retried, and how the run ends.
//
//   gathering --(enough nodes)--> running --(a failure, a loss, a signal)--> ending --(all have ended)--+--> finished
//       ^                                                                                               |
//       +----------------------------(a restart, after a pause; a rollback)-----------------------------+
//
// Has no sockets, processes or clock: its owner reports what happened and when, and carries out the orders. Not
// thread-safe.
#pragma once

#include "rendezvous/node_messages.h"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// What a node hears that joins when the run has ended.
inline constexpr auto kRunIsOver = "the run is over";

struct CoordinatorPlan {
  int min_nodes = 1, max_nodes = 1;
  int max_restarts = 0;            // after failures; a node that leaves or joins does not count if others can continue
  double join_seconds = 600;       // how long to wait for the nodes of an attempt
  double last_call_seconds = 10;   // how long to wait for one more node, with fewer than max_nodes
  double first_pause_seconds = 1;  // before a restart; doubles each time, up to a minute
  // How long a node may take to end its workers and report it: if they are to save first, and if somebody has failed.
  double stop_seconds = 60, abort_seconds = 30;

  bool elastic() const { return min_nodes < max_nodes; }
};

class Coordinator {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Prepares the run's folder for an attempt with that world size and number of nodes, and returns the order to start
  // it, but for what is each node's own. A UserError ends the run.
  using Begin = std::function<Order(int world_size, int nodes)>;
  using Notify = std::function<void(bool warning, const std::string& text)>;  // prints to people at the first node

  Coordinator(const CoordinatorPlan& plan, Begin begin, Notify notify, Time now);

  // Events. `node` is the owner's number of a connection, never used twice.
  void joined(int node, const NodeInfo& info, Time now);  // counts once
  void started(int node, int attempt);            // its workers have started; until then it may be busy with its data
  void failing(int node, int attempt, Time now);  // one of its workers failed; its end will follow
  void ended(int node, AttemptEnd end, Time now);
  void lost(int node, const std::string& why, Time now);
  void signalled(int node, int signal, bool at_once, Time now);
  void tick(Time now);

  // Returns which orders go to which nodes, in this order; each is returned once.
  std::vector<std::pair<int, Order>> take_orders() { return std::exchange(orders_, {}); }

  bool finished() const { return result_.has_value(); }
  const LaunchResult& result() const { return *result_; }  // valid for a finished run

 private:
  enum class Phase { kGathering, kRunning, kEnding };
  struct Node {
    NodeInfo info;
    int place = -1;  // in the current attempt; -1: not part of it
    int first_rank = 0;
    std::optional<AttemptEnd> end;
    bool failing = false;  // one of its workers failed; how is not known yet
    bool lost = false;
    bool leaving = false;  // asked to end by a signal, while the others continue
    bool started = false;  // its workers of the current attempt have started
    Time end_by = Time::max();
  };

  void gather(Time now);
  void start();
  std::vector<Node*> in_order();
  std::string objection(const NodeInfo& info) const;
  void rescale(const std::string& why, Time now, int but = -1);
  void end_all(Order::Kind kind, Time now, int but);
  void lose_late_nodes(Time now);
  Node* running(int node, int attempt);
  bool runs(const Node& node) const { return node.place >= 0 && !node.end && !node.lost; }
  void settle(Time now);
  LaunchResult judge_workers() const;
  bool rolls_back() const;
  bool is_by_loss(const LaunchResult& workers) const;
  LaunchResult judge_loss(const LaunchResult& others) const;
  bool curable(const LaunchResult& result) const;
  void restart(double pause_seconds, Time now);
  void restart_after_failure(const LaunchResult& result, bool by_loss, Time now);
  void finish(LaunchResult result);
  void goes(Node& node, bool Node::*how);
  void send_order(int node, Order order) { orders_.emplace_back(node, std::move(order)); }

  CoordinatorPlan plan_;
  Begin begin_;
  Notify notify_;
  std::map<int, Node> nodes_;
  std::map<int, int> holders_;  // the last node that came with each rank of its own
  size_t remaining_ = 0;        // nodes that a next attempt could have
  int leader_ = -1;             // the coordinator's own node, once it has joined
  std::vector<std::pair<int, Order>> orders_;
  Phase phase_ = Phase::kGathering;
  Time ticked_, gathering_since_, last_join_, pause_until_;
  bool begun_ = false;  // an attempt has begun
  int attempt_ = 0;     // the latest attempt; reports about another come too late
  int restarts_ = 0;
  int stop_signal_ = 0;     // a signal that asked for the end of the run
  bool ordered_ = false;    // the end of this attempt has been ordered
  bool rescaling_ = false;  // the attempt ends so that the run continues with another world size
  bool failed_ = false;     // a worker failed in this attempt
  std::string loss_;        // the first node lost in this attempt, and why
  bool loss_came_first_ = false;
  std::optional<WorkerFailure> last_failure_;
  std::optional<LaunchResult> result_;
};

}  // namespace ddprun
