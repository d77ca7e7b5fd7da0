// SPDX-License-Identifier: MIT
// The first node's server: the launchers of all nodes are linked here to the coordinator, and all workers to the keys
// and values in which they find each other. It runs on a thread of its own.
#pragma once

#include "rendezvous/address.h"
#include "rendezvous/coordinator.h"
#include "rendezvous/tls_channel.h"

#include <memory>
#include <optional>

namespace ddprun {

struct ServerPlan {
  Endpoint listen;  // a numeric address of this machine; empty: all of them. Port 0: any free one
  Secret secret;
  double node_timeout_seconds = 30;  // as RemoteLink's
  CoordinatorPlan coordinator;
};

// Somebody listens there already.
class PortTaken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class RendezvousServer {
 public:
  // Listens from here on. `begin` and `say` are called on the server's thread. Throws PortTaken; std::runtime_error
  // where it cannot listen for another reason.
  RendezvousServer(const ServerPlan& plan, Coordinator::Begin begin, Coordinator::Say say);
  ~RendezvousServer();  // ends all connections
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  int port() const;

  // How the run ended, for the launcher beside it that has been told so, or waits no longer: then there may be nothing.
  std::optional<LaunchResult> result() const;

  // Waits until the other launchers have been told too, a second at most.
  void say_farewell();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
