// SPDX-License-Identifier: MIT
#include "rendezvous/coordinator.h"

#include "base/clock.h"
#include "base/log.h"

#include <ddprun/error.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <ranges>

namespace ddprun {
namespace {

using Time = Coordinator::Time;

constexpr double kLongestPause = 60;
constexpr std::chrono::seconds kStoodStill{5};  // a longer gap between two ticks means that this process was stopped
constexpr size_t kHostsNamed = 16;

// Returns "a (2), b (1)": each host's workers, abbreviated if there are many.
std::string workers_by_host(const auto& nodes) {
  std::vector<std::pair<std::string, int>> hosts;
  for (const auto* node : nodes) {
    if (hosts.empty() || hosts.back().first != node->info.host) hosts.emplace_back(node->info.host, 0);
    hosts.back().second += node->info.workers;
  }
  std::string names;
  for (const auto& [host, workers] : hosts | std::views::take(kHostsNamed))
    names += log::text(names.empty() ? "" : ", ", host, " (", workers, ")");
  if (hosts.size() > kHostsNamed) names += log::text(", and ", hosts.size() - kHostsNamed, " more");
  return names;
}

bool any_failed(const AttemptEnd& end) {
  return end.hung || std::ranges::any_of(end.workers, [](const WorkerEnd& worker) {
           const bool saved_or_done = worker.exit_code == kExitDone || worker.exit_code == kExitPreempted;
           return worker.signal != 0 ? !worker.killed_by_launcher : !saved_or_done;
         });
}

}  // namespace

Coordinator::Coordinator(const CoordinatorPlan& plan, Begin begin, Notify notify, Time now)
    : plan_(plan),
      begin_(std::move(begin)),
      notify_(std::move(notify)),
      ticked_(now),
      gathering_since_(now),
      last_join_(now),
      pause_until_(now) {}

void Coordinator::joined(int node, const NodeInfo& info, Time now) {
  if (nodes_.contains(node)) return;  // it has said so before
  const auto objection = finished() ? kRunIsOver : this->objection(info);
  if (!objection.empty()) {
    return send_order(node, {.exit_code = kExitUsage, .text = objection});
  }
  nodes_.emplace(node, Node{.info = info});
  ++remaining_;
  if (info.rank) holders_[*info.rank] = node;
  if (info.first) leader_ = node;
  last_join_ = now;
  if (phase_ == Phase::kRunning) rescale(info.host + " has joined: saving, to continue with one more node", now);
  gather(now);
}

// Returns why a node cannot take part; empty if it can.
std::string Coordinator::objection(const NodeInfo& info) const {
  if (info.first && nodes_.contains(leader_)) return "the run has its first node already";
  if (info.rank && *info.rank >= plan_.max_nodes) {
    return log::text("node rank ", *info.rank, " in a run of ", plan_.max_nodes, " nodes: they count from 0");
  }
  if (!nodes_.empty()) {  // all nodes train on the same device
    const auto& other = nodes_.begin()->second.info;
    if (other.device != info.device)
      return log::text("it trains on ", info.device, " and ", other.host, " on ", other.device,
                       "; launch.device makes them the same");
  }
  if (info.rank && holders_.contains(*info.rank)) {
    const auto holder = nodes_.find(holders_.at(*info.rank));
    if (holder != nodes_.end() && !holder->second.lost)
      return log::text("node rank ", *info.rank, " is taken by ", holder->second.info.host,
                       "; give each node its own --node-rank");
  }
  if (remaining_ >= static_cast<size_t>(plan_.max_nodes))
    return log::text("the run has its ", plan_.max_nodes, " nodes already");
  return "";
}

// Marks a node as lost or leaving.
void Coordinator::goes(Node& node, bool Node::*how) {
  if (!node.lost && !node.leaving) --remaining_;
  node.*how = true;
}

// Returns the node if it takes part in the attempt and has not reported its end; otherwise null.
Coordinator::Node* Coordinator::running(int node, int attempt) {
  const auto found = nodes_.find(node);
  return found == nodes_.end() || attempt != attempt_ || !runs(found->second) ? nullptr : &found->second;
}

void Coordinator::started(int node, int attempt) {
  if (auto* found = running(node, attempt)) found->started = true;
}

void Coordinator::failing(int node, int attempt, Time now) {
  auto* found = running(node, attempt);
  if (!found) return;
  failed_ = found->failing = true;
  if (!ordered_) end_all(Order::Kind::kAbort, now, node);
}

void Coordinator::ended(int node, AttemptEnd end, Time now) {
  auto* found = running(node, end.attempt);
  if (!found) return;
  if (any_failed(end)) failing(node, end.attempt, now);
  phase_ = Phase::kEnding;
  found->end = std::move(end);
  settle(now);
}

void Coordinator::lost(int node, const std::string& why, Time now) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || finished()) return;
  if (found->second.place < 0 || found->second.end) {
    goes(found->second, &Node::lost);
    if (found->second.place < 0) nodes_.erase(found);
    return;
  }
  goes(found->second, &Node::lost);
  if (loss_.empty()) {
    loss_ = log::text("node ", found->second.place, " (", found->second.info.host, ") is lost",
                      found->second.failing ? " after one of its workers has failed: " : ": ", why);
    loss_came_first_ = !failed_;
  }
  if (!ordered_) end_all(Order::Kind::kAbort, now, node);
  settle(now);
}

void Coordinator::signalled(int node, int signal, bool at_once, Time now) {
  const auto found = nodes_.find(node);
  if (finished() || found == nodes_.end()) return;
  if (at_once && phase_ != Phase::kGathering) return end_all(Order::Kind::kKill, now, node);
  const bool others_continue = !found->second.info.first && signal != SIGINT && plan_.elastic() &&
                               remaining_ > static_cast<size_t>(plan_.min_nodes);
  if (others_continue) {
    goes(found->second, &Node::leaving);
    if (phase_ != Phase::kGathering)
      rescale(found->second.info.host + " is leaving: saving, to continue without it", now, node);
    return;
  }
  if (stop_signal_ == 0) stop_signal_ = signal;
  if (phase_ == Phase::kGathering) {
    finish({.exit_code = kExitSignalBase + signal, .stop_requested = true});
  } else {
    end_all(Order::Kind::kStop, now, node);
  }
  settle(now);
}

void Coordinator::rescale(const std::string& why, Time now, int but) {
  notify_(false, why);
  rescaling_ = true;
  end_all(Order::Kind::kStop, now, but);
}

// Sends the order to all nodes still running the attempt, except `but`, which knows already.
void Coordinator::end_all(Order::Kind kind, Time now, int but) {
  phase_ = Phase::kEnding;
  ordered_ = true;
  const auto by = now + seconds(kind == Order::Kind::kStop ? plan_.stop_seconds : plan_.abort_seconds);
  for (auto& [id, node] : nodes_) {
    if (!runs(node)) continue;
    node.end_by = std::min(node.end_by, by);
    if (id != but) send_order(id, {.kind = kind});
  }
}

void Coordinator::tick(Time now) {
  const auto since = now - std::exchange(ticked_, now);
  if (since > kStoodStill) {  // this process was stopped, and gives the others their time
    for (auto& [id, node] : nodes_) node.end_by = node.end_by == Time::max() ? node.end_by : node.end_by + since;
  }
  if (phase_ == Phase::kEnding) lose_late_nodes(now);
  if (!finished()) gather(now);
}

// A live launcher kills what does not end in time, and reports it. One that is still busy with its data starts no
// workers any more.
void Coordinator::lose_late_nodes(Time now) {
  std::vector<int> late;
  for (const auto& [id, node] : nodes_) {
    if (runs(node) && node.started && now >= node.end_by) late.push_back(id);
  }
  for (const int node : late) {
    send_order(node, {.exit_code = kExitFailed, .text = "this node did not report in time how its workers ended"});
    lost(node, "it does not report how its workers ended", now);
  }
}

void Coordinator::gather(Time now) {
  if (phase_ != Phase::kGathering || now < pause_until_) return;
  const auto there = static_cast<int>(remaining_);
  if (!nodes_.contains(leader_)) {
    if (leader_ >= 0) finish({.report = "the first node's own launcher is lost\n"});
    return;  // it has not yet created the run's folder
  }
  const auto quiet_since = std::max(last_join_, std::max(gathering_since_, pause_until_));
  const bool enough = there >= plan_.min_nodes && now - quiet_since >= seconds(plan_.last_call_seconds);
  if (there >= plan_.max_nodes || enough) return start();
  if (now - gathering_since_ < seconds(plan_.join_seconds)) return;
  std::string hosts;
  for (const auto& [id, node] : nodes_) hosts += (hosts.empty() ? "" : ", ") + node.info.host;
  finish({.report = log::text("waited ", plan_.join_seconds, " s for ", plan_.min_nodes, " nodes; there ",
                              there == 1 ? "is " : "are ", there, ": ", hosts,
                              ". Have the others been started, and can they reach this one?\n")});
}

// Orders nodes by their own ranks, then by arrival: the first node comes first in either case.
std::vector<Coordinator::Node*> Coordinator::in_order() {
  std::vector<Node*> order;
  for (auto& [id, node] : nodes_) {
    if (!node.lost && !node.leaving) order.push_back(&node);
  }
  const auto rank = [](const Node* node) {
    return std::pair(!node->info.first, node->info.rank.value_or(std::numeric_limits<int>::max()));
  };
  std::ranges::stable_sort(order, {}, rank);
  return order;
}

void Coordinator::start() try {
  const auto order = in_order();
  int world_size = 0, nodes = 0;
  for (auto* node : order) {
    node->place = nodes++;
    node->first_rank = std::exchange(world_size, world_size + node->info.workers);
  }
  auto start = begin_(world_size, nodes);
  start.kind = Order::Kind::kStart;
  start.attempt.nodes = nodes;
  start.attempt.world_size = world_size;
  begun_ = true;
  attempt_ = start.attempt.number;
  if (nodes > 1) notify_(false, log::text("starting ", world_size, " workers: ", workers_by_host(order)));
  for (const auto& [id, node] : nodes_) {
    if (node.place < 0) continue;
    start.attempt.node = node.place;
    start.attempt.first_rank = node.first_rank;
    send_order(id, start);
  }
  phase_ = Phase::kRunning;
} catch (const UserError& error) {
  finish({.exit_code = begun_ ? kExitFailed : kExitUsage, .report = error.what() + std::string("\n")});
}

// Call once no node runs the attempt any more.
void Coordinator::settle(Time now) {
  if (phase_ != Phase::kEnding || finished()) return;
  for (const auto& [id, node] : nodes_) {
    if (runs(node)) return;
  }
  const auto workers = judge_workers();
  const bool by_loss = is_by_loss(workers);
  const auto result = by_loss ? judge_loss(workers) : workers;
  const bool failed = failed_ || !loss_.empty();
  if (result.stop_requested || (!failed && !rescaling_ && !rolls_back())) return finish(result);
  if (!failed) return restart(0, now);
  restart_after_failure(result, by_loss, now);
}

LaunchResult Coordinator::judge_workers() const {
  AttemptEnd all{.stop_signal = stop_signal_};
  for (const auto& [id, node] : nodes_) {
    if (!node.end) continue;
    all.workers.insert(all.workers.end(), node.end->workers.begin(), node.end->workers.end());
    if (!rescaling_ && all.stop_signal == 0) all.stop_signal = node.end->stop_signal;
    all.at_once = all.at_once || node.end->at_once;
    all.hung = all.hung || node.end->hung;
  }
  std::ranges::sort(all.workers, {}, &WorkerEnd::rank);
  return judge_ends(all);
}

// Returns whether workers ended the attempt for the next one, which starts from the last checkpoint.
bool Coordinator::rolls_back() const {
  return std::ranges::any_of(nodes_, [](const auto& entry) {
    const auto& end = entry.second.end;
    return end && std::ranges::any_of(end->workers, &WorkerEnd::rolls_back);
  });
}

// Returns true if the attempt ended because a node was lost: workers that notice it first only say that they lost
// contact.
bool Coordinator::is_by_loss(const LaunchResult& workers) const {
  if (loss_.empty()) return false;
  if (workers.exit_code == kExitDone) return true;  // of all that reported: not the lost ones
  if (workers.stop_requested) return false;
  const bool explained =
      !workers.report.empty() && !(workers.cause && workers.cause->kind == FailureKind::kCommunication);
  return loss_came_first_ || !explained;
}

LaunchResult Coordinator::judge_loss(const LaunchResult& others) const {
  LaunchResult result{.exit_code = kExitFailed, .report = loss_ + "\n"};
  if (!others.report.empty()) result.report += "  then " + others.report;
  return result;
}

// Mistakes in the experiment or the data are not curable, nor is running out of memory or having ranks that differ
// twice at the same step.
bool Coordinator::curable(const LaunchResult& result) const {
  if (result.exit_code == kExitUsage) return false;
  if (!result.cause) return true;
  const auto kind = result.cause->kind;
  if (kind == FailureKind::kMemory || kind == FailureKind::kReplicas)
    return !(last_failure_ && last_failure_->kind == kind && last_failure_->step == result.cause->step);
  return kind != FailureKind::kUser;
}

void Coordinator::restart_after_failure(const LaunchResult& result, bool by_loss, Time now) {
  const auto leader = nodes_.find(leader_);
  if (leader == nodes_.end() || leader->second.lost) return finish(result);  // it has the run's folder
  const bool others_continue = by_loss && plan_.elastic() && remaining_ >= static_cast<size_t>(plan_.min_nodes);
  if (others_continue) {
    notify_(true, headline(result.report));
    notify_(false, "continuing with the nodes that are left");
    return restart(0, now);
  }
  if (restarts_ >= plan_.max_restarts || !curable(result)) return finish(result);
  last_failure_ = result.cause;
  const double pause =
      std::min(plan_.first_pause_seconds * static_cast<double>(1 << std::min(restarts_, 10)), kLongestPause);
  ++restarts_;
  notify_(true, result.report);
  const auto missing = plan_.min_nodes - static_cast<int>(remaining_);
  const auto awaited = log::text("; it needs ", missing, missing == 1 ? " node" : " nodes", " more, restarted within ",
                                 plan_.join_seconds, " s");
  notify_(false, log::text("restart ", restarts_, " of ", plan_.max_restarts, " from the last checkpoint in ", pause,
                           " s", missing > 0 ? awaited : ""));
  restart(pause, now);
}

void Coordinator::restart(double pause_seconds, Time now) {
  for (const auto& [id, node] : nodes_) {
    if (node.leaving && !node.lost)
      send_order(id, {.exit_code = kExitPreempted, .text = "this node has left; the run continues without it"});
  }
  std::erase_if(nodes_, [](const auto& entry) { return entry.second.lost || entry.second.leaving; });
  for (auto& [id, node] : nodes_) node = {.info = node.info};
  failed_ = rescaling_ = ordered_ = false;
  loss_.clear();
  phase_ = Phase::kGathering;
  gathering_since_ = now;
  pause_until_ = now + seconds(pause_seconds);
  gather(now);
}

void Coordinator::finish(LaunchResult result) {
  for (const auto& [id, node] : nodes_) {
    if (!node.lost) send_order(id, {.exit_code = result.exit_code, .text = headline(result.report)});
  }
  result_ = std::move(result);
}

}  // namespace ddprun
