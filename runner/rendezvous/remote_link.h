// SPDX-License-Identifier: MIT
// The link over the network.
#pragma once

#include "rendezvous/connection.h"
#include "rendezvous/control_link.h"
#include "rendezvous/liveness.h"

namespace ddprun {

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

}  // namespace ddprun
