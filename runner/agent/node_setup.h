// SPDX-License-Identifier: MIT
// Determines this node's place among the nodes of a run and what it starts there.
#pragma once

#include "agent/launch_choice.h"
#include "cluster/placement.h"
#include "cluster/setting.h"
#include "launch/launcher.h"
#include "rendezvous/address.h"
#include "rendezvous/server.h"
#include "rendezvous/tls_channel.h"

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// What the node that hosts the run adds: how it coordinates the others and, unless it is alone, its server.
struct Hosting {
  ServerPlan server;
  std::vector<std::string> warnings;  // if processes of other machines can connect to it
};

struct NodeSetup {
  Placement placement;
  LaunchConfig config;
  LaunchChoice launch;  // for this node
  LaunchPlan plan;      // of its workers, to be completed for each attempt
  std::string host;     // this machine's name
  Endpoint endpoint;    // the first node's server; no host if there is only one node
  std::string address;  // this machine's address on the route there
  Secret secret;
  bool at_endpoint = false;  // the endpoint is an address of this machine; asked where the run's server may be here
  Hosting hosting = {};      // unless another node hosts the run

  bool standalone() const { return endpoint.host.empty(); }
  bool is_rank() const { return placement.role == Role::kRank && !standalone(); }
  // Whether this node hosts the run: yes, no, or the first to listen at the endpoint.
  enum class Hosts { kYes, kNo, kFirstCome };
  Hosts hosts() const;
  NodeInfo info(bool first) const;
};

// Reads the flags, the environment and the experiment's `launch:`. Throws UserError for contradictions, a token file
// that cannot be read, trainer.strategy dp with more than one process, and what choose_launch refuses.
NodeSetup find_node_setup(const LaunchFlags& flags, const Experiment& experiment,
                          const Environment& environment = process_environment(),
                          const Machine& machine = this_machine());

// Completes the setup of the node that hosts the run: asks Slurm when it ends the job, if the environment does not
// know, and makes a token where torchrun's store can carry one to the others.
Hosting prepare_to_host(NodeSetup& setup, const Environment& environment);

}  // namespace ddprun
