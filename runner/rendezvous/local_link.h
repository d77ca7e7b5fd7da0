// SPDX-License-Identifier: MIT
// The link of a single node, whose coordinator is in the same process.
#pragma once

#include "rendezvous/control_link.h"
#include "rendezvous/coordinator.h"

namespace ddprun {

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
