// SPDX-License-Identifier: MIT
// A launcher's link to the run's coordinator: over the network, or in the same process.
#pragma once

#include "base/clock.h"
#include "rendezvous/connection.h"
#include "rendezvous/coordinator.h"
#include "rendezvous/node_messages.h"

#include <chrono>
#include <map>
#include <vector>

namespace ddprun {

// Returns how often each side of a link sends a beat and checks for silence.
inline std::chrono::milliseconds beat_interval(double timeout_seconds) {
  return std::chrono::ceil<std::chrono::milliseconds>(seconds(timeout_seconds / 8));
}

// Keeps track of who has been heard of lately. The kernel answers for a process that is stopped or hangs, so only a
// process's own messages count as life.
class Liveness {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Liveness(double timeout_seconds) : timeout_(seconds(timeout_seconds)) {}

  void seen(int id, Time now) {
    last_[id] = now;
    if (asked_ == Time{}) asked_ = now;
  }
  void forget(int id) { last_.erase(id); }
  bool knows(int id) const { return last_.contains(id); }

  // Returns those not heard of within the timeout. If the call itself comes late, this process was stopped (Ctrl-Z, a
  // frozen machine) and may not have read what others sent meanwhile: they get their time again.
  std::vector<int> silent(Time now) {
    const bool stood_still = now - asked_ > timeout_ / 2;
    asked_ = now;
    std::vector<int> silent;
    for (auto& [id, last] : last_) {
      if (stood_still) last = now;
      if (now - last >= timeout_) silent.push_back(id);
    }
    return silent;
  }

 private:
  std::chrono::steady_clock::duration timeout_;
  std::map<int, Time> last_;
  Time asked_{};
};

class ControlLink {
 public:
  virtual ~ControlLink() = default;

  virtual void join(const NodeInfo& info) = 0;
  virtual void started(int attempt) = 0;  // its workers have started: from here on it obeys orders at once
  virtual void failing(int attempt) = 0;
  virtual void ended(const AttemptEnd& end) = 0;
  virtual void signalled(int signal, bool at_once) = 0;

  // Returns the orders that have come; never blocks. Call it when fd() is readable, and at least every ask_within(): it
  // also shows the coordinator that this launcher is alive. Throws ConnectionLost if the coordinator is gone or silent.
  virtual std::vector<Order> take_orders() = 0;
  virtual std::chrono::milliseconds ask_within() const = 0;
  virtual int fd() const = 0;  // to poll for orders; -1: there are none

  // Shows the coordinator that this launcher is alive while it is busy with something else.
  virtual void beat() = 0;
};

// The link over the network.
class RemoteLink final : public ControlLink {
 public:
  // A coordinator that is silent for `node_timeout_seconds` is lost: its machine vanished or is frozen, or the link is
  // cut. Shorter cuts are survived.
  RemoteLink(Connection connection, double node_timeout_seconds);

  // Connects to the run's server. Throws UserError if it has not answered by then.
  static RemoteLink open(const Endpoint& endpoint, const Secret& secret, Connection::Clock::time_point deadline,
                         double node_timeout_seconds);

  void join(const NodeInfo& info) override;
  void started(int attempt) override;
  void failing(int attempt) override;
  void ended(const AttemptEnd& end) override;
  void signalled(int signal, bool at_once) override;
  std::vector<Order> take_orders() override;
  std::chrono::milliseconds ask_within() const override { return beat_interval(node_timeout_seconds_); }
  int fd() const override { return connection_.fd(); }
  void beat() override;

 private:
  Connection connection_;
  double node_timeout_seconds_;
  Liveness liveness_;
  Liveness::Time next_beat_;
};

// The link of a single node, whose coordinator is in the same process.
class LocalLink final : public ControlLink {
 public:
  explicit LocalLink(Coordinator& coordinator) : coordinator_(coordinator) {}

  void join(const NodeInfo& info) override { coordinator_.joined(kNode, info, now()); }
  void started(int attempt) override { coordinator_.started(kNode, attempt); }
  void failing(int attempt) override { coordinator_.failing(kNode, attempt, now()); }
  void ended(const AttemptEnd& end) override { coordinator_.ended(kNode, end, now()); }
  void signalled(int signal, bool at_once) override { coordinator_.signalled(kNode, signal, at_once, now()); }

  std::vector<Order> take_orders() override {
    coordinator_.tick(now());
    std::vector<Order> orders;
    for (auto& [node, order] : coordinator_.take_orders()) orders.push_back(std::move(order));
    return orders;
  }

  std::chrono::milliseconds ask_within() const override { return std::chrono::milliseconds(50); }
  int fd() const override { return -1; }
  void beat() override {}

 private:
  static constexpr int kNode = 0;
  static Coordinator::Time now() { return std::chrono::steady_clock::now(); }

  Coordinator& coordinator_;
};

}  // namespace ddprun
