// SPDX-License-Identifier: MIT
#include "agent/node_setup.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/program.h"
#include "rendezvous/address.h"
#include "submit/requeue.h"

#include <ddprun/error.h>

namespace ddprun {
namespace {

// Allows a launcher time after it has asked its workers to end: the grace after a failure, SIGKILL, a process that even
// then does not end (launcher.cpp), and the message back.
constexpr double kTimeToSay = 30;

std::string nodes_text(const LaunchConfig& config) {
  const auto least = std::to_string(config.min_nodes);
  return config.min_nodes == config.max_nodes ? least : least + ":" + std::to_string(config.max_nodes);
}

// What the experiment says of nodes, for where neither flags nor an engine do.
LaunchFlags flags_of(const LaunchConfig& config) {
  if (config.max_nodes == 1) return {};
  return {.nnodes = Setting{"launch.nodes", nodes_text(config)}};
}

void require_one_process(const NodeSetup& setup) {
  if (setup.standalone()) return;
  throw UserError(
      "trainer.strategy: dp is one process with the GPUs of one machine, but this job has several processes. Use "
      "trainer.strategy=ddp");
}

}  // namespace

NodeSetup find_node_setup(const LaunchFlags& flags, const Experiment& experiment, const Environment& environment,
                          const Machine& machine) {
  const auto otherwise = flags_of(experiment.launch);
  NodeSetup setup{
      .placement = find_placement(flags, environment, otherwise), .config = experiment.launch, .host = host_name()};
  const auto& placement = setup.placement;
  setup.endpoint = {placement.host, placement.port};
  if (experiment.trainer.strategy == Strategy::kDp) require_one_process(setup);
  setup.launch = choose_node_launch(experiment, placement, environment, machine);
  require_backend(setup.launch);
  if (setup.is_rank()) setup.launch.workers = 1;
  setup.plan = node_plan(setup.launch);
  if (!setup.standalone()) {
    setup.secret = read_secret(placement.job_id, experiment.launch.token_file);
    setup.address = own_address(experiment.launch.address, setup.endpoint);
    const bool is_numbered = placement.role == Role::kRank || placement.node_rank;
    const bool listens = setup.hosts() == NodeSetup::Hosts::kYes && !placement.agent_store;
    if (!is_numbered || listens) setup.at_endpoint = is_this_machine(setup.endpoint);
  }
  if (setup.hosts() != NodeSetup::Hosts::kNo) setup.hosting = prepare_to_host(setup, environment);
  return setup;
}

NodeSetup::Hosts NodeSetup::hosts() const {
  if (standalone()) return Hosts::kYes;
  if (placement.role == Role::kRank) return placement.rank == 0 ? Hosts::kYes : Hosts::kNo;
  if (placement.node_rank) return *placement.node_rank == 0 ? Hosts::kYes : Hosts::kNo;
  return at_endpoint ? Hosts::kFirstCome : Hosts::kNo;
}

NodeInfo NodeSetup::info(bool first) const {
  return {.host = host,
          .address = address,
          .rank = is_rank() ? placement.rank : placement.node_rank,
          .workers = static_cast<int>(launch.workers),
          .device = std::string(word_of(launch.device)),
          .first = first};
}

namespace {

CoordinatorPlan coordination(const NodeSetup& setup) {
  const auto& placement = setup.placement;
  const auto& config = setup.config;
  CoordinatorPlan plan{.min_nodes = setup.is_rank() ? placement.world_size : placement.min_nodes,
                       .max_nodes = setup.is_rank() ? placement.world_size : placement.max_nodes,
                       .max_restarts = placement.max_restarts.value_or(static_cast<int>(config.max_restarts)),
                       .join_seconds = config.join_seconds,
                       .first_pause_seconds = config.restart_seconds,
                       .stop_seconds = config.grace_seconds + kTimeToSay,
                       .abort_seconds = kTimeToSay};
  if (placement.engine_restarts) plan.max_restarts = 0;
  return plan;
}

// Returns warnings if processes of other machines can take part in the run.
std::vector<std::string> warnings_of_openness(const NodeSetup& setup) {
  constexpr size_t kWeak = 16;
  const auto& token = setup.secret.token;
  if (is_loopback(setup.address)) return {};
  if (token.empty())
    return {"no DDPRUN_TOKEN and no launch.token_file: anyone who can reach " + setup.endpoint.text() +
            " can join this run or impersonate its first node. Set the same on all nodes: export "
            "DDPRUN_TOKEN=$(openssl rand -hex 32)"};
  if (token.size() >= kWeak) return {};
  return {log::text("a token of ", token.size(), " characters is too short; use the output of openssl rand -hex 32")};
}

}  // namespace

Hosting prepare_to_host(NodeSetup& setup, const Environment& environment) {
  auto& placement = setup.placement;
  if (placement.ends_at <= 0 && setup.config.end_margin_seconds > 0) {
    if (const auto left = slurm_time_left(environment)) placement.ends_at = static_cast<int>(wall_seconds() + *left);
  }
  if (placement.agent_store && setup.secret.token.empty()) setup.secret.token = random_token();
  Hosting hosting{.server = {.secret = setup.secret,
                             .node_timeout_seconds = setup.config.node_timeout_seconds,
                             .coordinator = coordination(setup)}};
  if (setup.standalone()) return hosting;
  hosting.warnings = warnings_of_openness(setup);
  hosting.server.listen = {setup.address, placement.agent_store ? 0 : setup.endpoint.port};
  if (placement.agent_store || setup.at_endpoint) return hosting;
  hosting.server.listen.host.clear();  // others use a name for this machine, such as a Kubernetes service
  hosting.warnings.push_back(setup.endpoint.host + " is not an address of this machine (" + own_addresses() +
                             "): listening on all of them; launch.address chooses one");
  return hosting;
}

}  // namespace ddprun
