// SPDX-License-Identifier: MIT
// The first node's server, which links the launchers of all nodes to the coordinator, and all workers to the keys and
// values in which they find each other. It runs on a thread of its own.
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
  double node_timeout_seconds = 30;  // as in RemoteLink
  CoordinatorPlan coordinator;
};

// Somebody else is listening there already.
class PortTaken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class RendezvousServer {
 public:
  // Listens from here on. `begin` and `say` are called on the server's thread. Throws PortTaken, or std::runtime_error
  // if it cannot listen for another reason.
  RendezvousServer(const ServerPlan& plan, Coordinator::Begin begin, Coordinator::Notify notify);
  ~RendezvousServer();  // ends all connections
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  int port() const;

  // Returns what the local launcher shows when it joins as the first node (NodeInfo). Nobody else knows it.
  const std::string& leader_key() const;

  // Returns how the run ended, for the local launcher once it knows, or has stopped waiting; then there may be
  // nothing.
  std::optional<LaunchResult> result() const;

  // Waits, at most a second, until the other launchers know too, and have left.
  void wait_for_disconnects();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
