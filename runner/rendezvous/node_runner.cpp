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

// Keeps the orders until somebody acts on them. A lost coordinator is kept as a text.
class Inbox {
 public:
  explicit Inbox(ControlLink& link) : link_(link) {}

  void read() {
    guarded([this] {
      for (auto& order : link_.take_orders()) orders_.push_back(std::move(order));
    });
  }

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

  std::deque<Order>& orders() { return orders_; }
  const std::optional<std::string>& lost() const { return lost_; }

 private:
  ControlLink& link_;
  std::deque<Order> orders_;
  std::optional<std::string> lost_;
};

class Observer final : public LaunchObserver {
 public:
  Observer(ControlLink& link, Inbox& inbox, int attempt) : link_(link), inbox_(inbox), attempt_(attempt) {}

  int fd() const override { return inbox_.lost() ? -1 : link_.fd(); }

  std::chrono::milliseconds ask_within() const override { return link_.ask_within(); }

  Request take_request() override {
    inbox_.read();
    Request request = Request::kNone;
    auto& orders = inbox_.orders();
    while (!orders.empty() && orders.front().kind != Order::Kind::kStart &&
           orders.front().kind != Order::Kind::kFinish) {
      request = std::max(request, meaning(orders.front().kind));
      orders.pop_front();
    }
    const bool over = inbox_.lost() || !orders.empty();  // nobody waits for these workers any more
    return over ? std::max(request, Request::kAbort) : request;
  }

  void failing() override {
    inbox_.guarded([this] { link_.failing(attempt_); });
  }

  void signalled(int signal, bool at_once) override {
    inbox_.guarded([&] { link_.signalled(signal, at_once); });
  }

 private:
  static Request meaning(Order::Kind kind) {
    if (kind == Order::Kind::kStop) return Request::kStop;
    return kind == Order::Kind::kKill ? Request::kKill : Request::kAbort;
  }

  ControlLink& link_;
  Inbox& inbox_;
  const int attempt_;
};

// Reports a failure before any worker ran as the end of the node's first worker.
AttemptEnd failed_to_prepare(const StartOrder& start, const NodeInfo& info, const std::string& problem) {
  WorkerEnd end{.rank = start.first_rank,
                .host = start.nodes > 1 ? info.host : "",
                .exit_code = kExitUsage,
                .time = steady_seconds()};
  end.failure = WorkerFailure{.rank = end.rank, .time = end.time, .kind = FailureKind::kUser, .message = problem};
  return {.workers = {end}};
}

// Tells the coordinator that this launcher is alive while its own thread works elsewhere and does not use the link.
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
        return {kExitSignalBase + ended_at_once_, "ended at once, without waiting for the others", last_};
      if (!order) return {kExitFailed, "lost the first node: " + *inbox_.lost(), last_};
      if (order->kind == Order::Kind::kFinish) return {order->exit_code, order->text, last_};
      if (order->kind == Order::Kind::kStart) start(order->start);
    }
  }

 private:
  // Waits for an order; returns none if the coordinator is lost or a second signal ends the waiting.
  std::optional<Order> next() {
    SignalInbox signals;
    for (;;) {
      inbox_.read();
      auto& orders = inbox_.orders();
      if (!orders.empty()) {
        auto order = std::move(orders.front());
        orders.pop_front();
        return order;
      }
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
    inbox_.guarded([&] { link_.signalled(signal, again); });
  }

  LaunchPlan prepare(const StartOrder& start) {
    const Pulse pulse(link_, inbox_);
    return plan_(start);
  }

  void start(const StartOrder& start) {
    try {
      const auto plan = prepare(start);
      inbox_.guarded([&] { link_.started(start.attempt); });
      Observer observer(link_, inbox_, start.attempt);
      last_ = run_attempt(plan, observer);
    } catch (const UserError& error) {
      last_ = failed_to_prepare(start, info_, error.what());
    }
    last_.attempt = start.attempt;
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
