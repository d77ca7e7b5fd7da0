// SPDX-License-Identifier: MIT
// A launcher's link to the run's coordinator, local or remote.
#pragma once

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

}  // namespace ddprun
