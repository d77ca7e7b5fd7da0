// SPDX-License-Identifier: MIT
// Where this launcher stands among the nodes of a run, and what it starts there.
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
  LaunchChoice launch;     // of this node
  std::optional<int> gpu;  // of a rank: its index among those that it sees; nothing: its local rank
  std::string host;        // this machine's name
  Endpoint endpoint;       // of the first node's server; no host where there is one node
  std::string address;     // this machine's on the way there
  Secret secret;
  std::map<std::string, std::string> plugins;  // their places in the experiment, for reports

  bool standalone() const { return endpoint.host.empty(); }
  bool is_rank() const { return placement.role == Role::kRank && !standalone(); }
  // Whether it keeps the run's server: yes, no, or whoever is first to listen at the endpoint.
  enum class Hosts { kYes, kNo, kFirstCome };
  Hosts hosts() const;
  NodeInfo info(bool first) const;
  CoordinatorPlan coordination() const;
};

// From the flags, the environment and `launch:` of the experiment. Throws UserError for contradictions, a token file
// that cannot be read, trainer.strategy dp with more than one process, and what choose_launch refuses.
NodeSetup find_node_setup(const LaunchFlags& flags, const Experiment& experiment,
                          const Environment& environment = process_environment(),
                          const Machine& machine = this_machine());

// Where the environment does not tell when Slurm ends the job, asks Slurm. For the first node's agent.
void find_end_of_job(NodeSetup& setup, const Environment& environment = process_environment());

// Returns what to warn of where others than this machine's processes may knock at the first node's server.
std::vector<std::string> warnings_of_openness(const NodeSetup& setup);

// How to start this node's workers for an attempt.
LaunchPlan attempt_plan(const NodeSetup& setup, const StartOrder& start);

}  // namespace ddprun
