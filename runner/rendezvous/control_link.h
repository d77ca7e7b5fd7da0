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
  virtual void started(int attempt) = 0;  // its workers: from here on it obeys orders at once
  virtual void failing(int attempt) = 0;
  virtual void ended(const AttemptEnd& end) = 0;
  virtual void signalled(int signal, bool at_once) = 0;

  // The orders that have come; never blocks. To be called where fd() is readable, and every ask_within() at the latest:
  // it tells the coordinator too that this launcher is alive. Throws ConnectionLost where the coordinator is gone or
  // silent.
  virtual std::vector<Order> take_orders() = 0;
  virtual std::chrono::milliseconds ask_within() const = 0;
  virtual int fd() const = 0;  // to poll for orders; -1: there is none

  // Tells the coordinator that this launcher is alive, while it is busy with something else.
  virtual void beat() = 0;
};

}  // namespace ddprun
