// SPDX-License-Identifier: MIT
// A launcher's link to the run's coordinator: over the network, or in the same process.
#pragma once

#include "rendezvous/connection.h"
#include "rendezvous/coordinator.h"
#include "rendezvous/liveness.h"
#include "rendezvous/node_messages.h"

#include <chrono>
#include <vector>

namespace ddprun {

class ControlLink {
 public:
  virtual ~ControlLink() = default;

  virtual void join(const NodeInfo& info) = 0;
  virtual void started(int attempt) = 0;  // its workers have started: from here on it obeys orders at once
  virtual void failing(int attempt) = 0;
  virtual void ended(const AttemptEnd& end) = 0;
  virtual void signalled(int signal, bool at_once) = 0;

  // Returns the orders that have come; never blocks. Call it when fd() is readable, and at least every ask_within(): it
  // also tells the coordinator that this launcher is alive. Throws ConnectionLost if the coordinator is gone or silent.
  virtual std::vector<Order> take_orders() = 0;
  virtual std::chrono::milliseconds ask_within() const = 0;
  virtual int fd() const = 0;  // to poll for orders; -1: there are none

  // Tells the coordinator that this launcher is alive while it is busy with something else.
  virtual void beat() = 0;
};

// The link over the network.
class RemoteLink final : public ControlLink {
 public:
  // A coordinator that is silent for `node_timeout_seconds` is lost: its machine vanished or is frozen, or the link is
  // cut. Shorter cuts are survived.
  RemoteLink(Connection connection, double node_timeout_seconds);

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
