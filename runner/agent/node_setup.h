// SPDX-License-Identifier: MIT
// Determines this node's place among the nodes of a run and what it starts there.
#pragma once

#include "agent/launch_choice.h"
#include "cluster/placement.h"
#include "cluster/setting.h"
#include "launch/launcher.h"
#include "rendezvous/address.h"
#include "rendezvous/coordinator.h"
#include "rendezvous/tls_channel.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct NodeSetup {
  Placement placement;
  LaunchConfig config;
  LaunchChoice launch;     // for this node
  std::optional<int> gpu;  // a rank's index among the GPUs it sees; nothing: its local rank
  std::string host;        // this machine's name
  Endpoint endpoint;       // the first node's server; no host if there is only one node
  std::string address;     // this machine's address on the route there
  Secret secret;
  std::map<std::string, std::string> plugins;  // places in the experiment, for reports

  bool standalone() const { return endpoint.host.empty(); }
  bool is_rank() const { return placement.role == Role::kRank && !standalone(); }
  // Whether this node hosts the run's server: yes, no, or the first to listen at the endpoint.
  enum class Hosts { kYes, kNo, kFirstCome };
  Hosts hosts() const;
  NodeInfo info(bool first) const;
  CoordinatorPlan coordination() const;
};

// Reads the flags, the environment and the experiment's `launch:`. Throws UserError for contradictions, a token file
// that cannot be read, trainer.strategy dp with more than one process, and what choose_launch refuses.
NodeSetup find_node_setup(const LaunchFlags& flags, const Experiment& experiment,
                          const Environment& environment = process_environment(),
                          const Machine& machine = this_machine());

// Asks Slurm when it ends the job, if the environment does not tell. Called by the first node's agent.
void find_end_of_job(NodeSetup& setup, const Environment& environment = process_environment());

// Returns warnings if processes of other machines can connect to the first node's server.
std::vector<std::string> warnings_of_openness(const NodeSetup& setup);

// Returns how to start this node's workers for an attempt.
LaunchPlan attempt_plan(const NodeSetup& setup, const Attempt& attempt);

}  // namespace ddprun
