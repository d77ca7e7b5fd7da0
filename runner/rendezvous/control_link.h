// SPDX-License-Identifier: MIT
// A launcher's link to the run's coordinator, wherever that is.
#pragma once

#include "rendezvous/node_messages.h"

#include <chrono>
#include <vector>

namespace ddprun {

class ControlLink {
 public:
  virtual ~ControlLink() = default;

  virtual void join(const NodeInfo& info) = 0;
  virtual void failing() = 0;
  virtual void ended(const AttemptEnd& end) = 0;
  virtual void signalled(int signal, bool at_once) = 0;

  // The orders that have come; never blocks. Throws ConnectionLost where the coordinator is gone.
  virtual std::vector<Order> take_orders() = 0;

  virtual int fd() const = 0;  // to poll for orders; -1: take_orders() tells them as time goes by
};

}  // namespace ddprun
