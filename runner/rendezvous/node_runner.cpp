// SPDX-License-Identifier: MIT
#include "rendezvous/node_runner.h"

#include "base/clock.h"
#include "launch/signal_inbox.h"
#include "rendezvous/connection.h"

#include <ddprun/error.h>

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kSameKeyPress{100};  // `timeout -s INT` signals the program, then its group

// The link, with the orders that have come kept until somebody acts on them. A lost coordinator is kept as a text.
class Inbox final : public Orders {
 public:
  explicit Inbox(ControlLink& link) : link_(link) {}

  // Calls the link; if that fails, the coordinator is lost.
  template <class Call>
  void guarded(const Call& call) {
    if (lost_) return;
    try {
      call();
    } catch (const ConnectionLost& error) {
      lost_ = error.what();
    } catch (const ProtocolError& error) {
      lost_ = error.what();
    }
  }

  // Returns the next order, whatever it is; nothing if none has come.
  std::optional<Order> next() {
    read();
    if (orders_.empty()) return std::nullopt;
    auto order = std::move(orders_.front());
    orders_.pop_front();
    return order;
  }

  const std::optional<std::string>& lost() const { return lost_; }
  void started(int attempt) {
    attempt_ = attempt;
    guarded([&] { link_.started(attempt); });
  }

  int fd() const override { return lost_ ? -1 : link_.fd(); }
  std::chrono::milliseconds ask_within() const override { return link_.ask_within(); }

  std::optional<Order::Kind> take() override {
    read();
    std::optional<Order::Kind> taken;
    while (!orders_.empty() && orders_.front().kind != Order::Kind::kStart &&
           orders_.front().kind != Order::Kind::kFinish) {
      taken = std::max(taken, std::optional(orders_.front().kind));
      orders_.pop_front();
    }
    const bool over = lost_ || !orders_.empty();  // nobody waits for these workers any more
    return over ? std::max(taken, std::optional(Order::Kind::kAbort)) : taken;
  }

  void failing() override {
    guarded([this] { link_.failing(attempt_); });
  }

  void signalled(int signal, bool at_once) override {
    guarded([&] { link_.signalled(signal, at_once); });
  }

 private:
  void read() {
    guarded([this] {
      for (auto& order : link_.take_orders()) orders_.push_back(std::move(order));
    });
  }

  ControlLink& link_;
  std::deque<Order> orders_;
  std::optional<std::string> lost_;
  int attempt_ = 0;  // whose workers run
};

// Reports a failure before any worker ran as the end of the node's first worker.
AttemptEnd failed_to_prepare(const Attempt& attempt, const NodeInfo& info, const std::string& problem) {
  WorkerEnd end{.rank = attempt.first_rank,
                .host = attempt.nodes > 1 ? info.host : "",
                .exit_code = kExitUsage,
                .time = steady_seconds()};
  end.failure = WorkerFailure{.rank = end.rank, .time = end.time, .kind = FailureKind::kUser, .message = problem};
  return {.workers = {end}};
}

// Shows the coordinator that this launcher is alive while its own thread works elsewhere and does not use the link.
class Pulse {
 public:
  Pulse(ControlLink& link, Inbox& inbox)
      : thread_([&](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          while (!wake_.wait_for(lock, stop, link.ask_within(), [&] { return stop.stop_requested(); }))
            inbox.guarded([&] { link.beat(); });
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

class NodeRunner {
 public:
  NodeRunner(ControlLink& link, const NodeInfo& info, const PlanAttempt& plan)
      : link_(link), info_(info), plan_(plan), inbox_(link) {}

  NodeResult run() {
    inbox_.guarded([this] { link_.join(info_); });
    for (;;) {
      const auto order = next();
      if (ended_at_once_)
        return result(kExitSignalBase + ended_at_once_, "ended at once, without waiting for the others");
      if (!order) return result(kExitFailed, "lost the first node: " + *inbox_.lost());
      if (order->kind == Order::Kind::kFinish) return result(order->exit_code, order->text);
      if (order->kind == Order::Kind::kStart) start(*order);
    }
  }

 private:
  NodeResult result(int exit_code, std::string text) const {
    return {.exit_code = exit_code, .text = std::move(text), .own = judge_ends(last_)};
  }

  // Waits for an order; returns none if the coordinator is lost or a second signal ends the waiting.
  std::optional<Order> next() {
    SignalInbox signals;
    for (;;) {
      if (auto order = inbox_.next()) return order;
      if (inbox_.lost() || ended_at_once_) return std::nullopt;
      pollfd polled[] = {{signals.fd(), POLLIN, 0}, {link_.fd(), POLLIN, 0}};
      ::poll(polled, 2, static_cast<int>(link_.ask_within().count()));
      for (const int signal : signals.take()) on_signal(signal);
    }
  }

  void on_signal(int signal) {
    if (signal == SIGTSTP) ::raise(SIGSTOP);
    if (signal == SIGTSTP || signal == SIGCHLD) return;
    const auto now = std::chrono::steady_clock::now();
    const bool again = last_.stop_signal != 0 || (signalled_at_ && now - *signalled_at_ > kSameKeyPress);
    if (!signalled_at_) signalled_at_ = now;
    if (again) ended_at_once_ = signal;
    inbox_.signalled(signal, again);
  }

  LaunchPlan prepare(const Order& order) {
    const Pulse pulse(link_, inbox_);
    return plan_(order);
  }

  void start(const Order& order) {
    try {
      const auto plan = prepare(order);
      inbox_.started(order.attempt.number);
      last_ = run_attempt(plan, inbox_);
    } catch (const UserError& error) {
      last_ = failed_to_prepare(order.attempt, info_, error.what());
    }
    last_.attempt = order.attempt.number;
    inbox_.guarded([this] { link_.ended(last_); });
  }

  ControlLink& link_;
  const NodeInfo& info_;
  const PlanAttempt& plan_;
  Inbox inbox_;
  AttemptEnd last_;
  std::optional<std::chrono::steady_clock::time_point> signalled_at_;  // while it was waiting
  int ended_at_once_ = 0;                                              // number of the signal that did so
};

}  // namespace

NodeResult run_node(ControlLink& link, const NodeInfo& info, const PlanAttempt& plan) {
  return NodeRunner(link, info, plan).run();
}

}  // namespace ddprun
