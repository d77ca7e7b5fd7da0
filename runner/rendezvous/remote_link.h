// SPDX-License-Identifier: MIT
// The link over the network.
#pragma once

#include "rendezvous/connection.h"
#include "rendezvous/control_link.h"

namespace ddprun {

class RemoteLink final : public ControlLink {
 public:
  // The kernel ends a connection whose other side has been silent for `node_timeout_seconds` (TCP keep-alive): a machine that
  // vanished, a cut link. A shorter cut is survived.
  RemoteLink(Connection connection, double node_timeout_seconds);

  void join(const NodeInfo& info) override;
  void failing() override;
  void ended(const AttemptEnd& end) override;
  void signalled(int signal, bool at_once) override;
  std::vector<Order> take_orders() override;
  int fd() const override { return connection_.fd(); }

 private:
  Connection connection_;
};

}  // namespace ddprun
