// SPDX-License-Identifier: MIT
// The stage of the coordinator's tests.
#pragma once

#include "rendezvous/coordinator.h"

#include <ddprun/error.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::testing {

// A coordinator with a clock and nodes that the test moves. Nodes are numbered from 0; node 0 is the first.
class Scene {
 public:
  // So many nodes are there, and have been ordered to start if that is enough.
  explicit Scene(CoordinatorPlan plan, int nodes_there = 0) {
    plan.first_pause_seconds = 1;
    coordinator_.emplace(
        plan,
        [this](int world_size, int nodes) {
          worlds.push_back({world_size, nodes});
          if (!refusal.empty()) throw UserError(refusal);
          return Order{.attempt = {.number = static_cast<int>(worlds.size()) - 1, .run_dir = "run"}};
        },
        [this](bool, const std::string& text) { said.push_back(text); }, now_);
    for (int node = 0; node < nodes_there; ++node) join(node);
    orders();
  }

  void join(int node, int workers = 2, std::optional<int> rank = {}) {
    coordinator_->joined(
        node, {.host = "host" + std::to_string(node), .rank = rank, .workers = workers, .first = node == 0}, now_);
  }

  void pass(double seconds) {
    for (auto left = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)); left.count() > 0;) {
      const auto some = std::min(left, std::chrono::milliseconds(1000));
      now_ += some;
      left -= some;
      coordinator_->tick(now_);
    }
  }

  // Without a tick in between, as where the process is stopped.
  void leap(double seconds) {
    now_ += std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
    coordinator_->tick(now_);
  }

  // All of the node's workers end with that code; ranks are as the start order said, two for each node.
  void end(int node, int exit_code, std::optional<FailureKind> kind = {}, long step = 7) {
    AttemptEnd end{.attempt = attempt()};
    for (int index = 0; index < 2; ++index) {
      WorkerEnd worker{.rank = 2 * node + index, .host = "host" + std::to_string(node), .exit_code = exit_code};
      if (kind)
        worker.failure = WorkerFailure{.rank = worker.rank, .time = 1, .kind = *kind, .message = "bad", .step = step};
      end.workers.push_back(worker);
    }
    coordinator_->ended(node, end, now_);
  }

  // The same of workers that end the attempt for the next one.
  void roll_back(int node) {
    const WorkerEnd worker{.rank = 2 * node, .exit_code = kExitPreempted, .rolls_back = true};
    coordinator_->ended(node, {.attempt = attempt(), .workers = {worker}}, now_);
  }

  void fail(int node) { coordinator_->failing(node, attempt(), now_); }
  void lose(int node) { coordinator_->lost(node, "gone", now_); }
  void signal(int node, int number, bool at_once = false) { coordinator_->signalled(node, number, at_once, now_); }

  // Those since the last call, in the order of the nodes: "0 abort, 1 finish".
  std::string orders() {
    static constexpr std::array kWords{"start", "stop", "abort", "kill", "finish"};
    std::multimap<int, std::string> given;
    for (auto& [node, order] : coordinator_->take_orders()) {
      given.emplace(node, kWords.at(static_cast<size_t>(order.kind)));
      if (order.kind == Order::Kind::kStart) {
        starts[node] = order.attempt;
        coordinator_->started(node, order.attempt.number);
      }
      if (order.kind == Order::Kind::kFinish) finishes[node] = order;
    }
    std::string text;
    for (const auto& [node, word] : given) text += (text.empty() ? "" : ", ") + std::to_string(node) + " " + word;
    return text;
  }

  int attempt() const { return static_cast<int>(worlds.size()) - 1; }

  Coordinator& operator*() { return *coordinator_; }
  Coordinator* operator->() { return &*coordinator_; }

  std::vector<std::pair<int, int>> worlds;  // of each attempt: world size, nodes
  std::vector<std::string> said;
  std::string refusal;
  std::map<int, Attempt> starts;
  std::map<int, Order> finishes;

 private:
  Coordinator::Time now_{};
  std::optional<Coordinator> coordinator_;
};

inline CoordinatorPlan fixed(int nodes, int max_restarts = 0) {
  return {.min_nodes = nodes, .max_nodes = nodes, .max_restarts = max_restarts};
}

inline CoordinatorPlan elastic(int min_nodes, int max_nodes) {
  return {.min_nodes = min_nodes, .max_nodes = max_nodes};
}

}  // namespace ddprun::testing
