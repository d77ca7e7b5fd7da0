// SPDX-License-Identifier: MIT
#include "agent/agent.h"

#include "agent/first_node.h"
#include "agent/joined_node.h"
#include "agent/own_node.h"
#include "base/log.h"
#include "comm/stores.h"
#include "launch/signal_inbox.h"
#include "rendezvous/server.h"
#include "submit/requeue.h"

#include <ddprun/error.h>

#include <memory>

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

int run_single_node(const NodeSetup& setup, const RunRequest& request) {
  const CommonPart nobody_compares;
  FirstNode first(setup, request, nobody_compares);
  first.make_run();
  Coordinator coordinator(setup.hosting.server.coordinator, first.begin(), first.notify(), Clock::now());
  LocalLink link(coordinator);
  run_own_node(link, setup.info(true), setup, request);
  return first.conclude(coordinator.result());
}

// Returns null if another launcher was first at the endpoint and this one may join it.
std::unique_ptr<RendezvousServer> listen(const NodeSetup& setup, FirstNode& first) try {
  return std::make_unique<RendezvousServer>(setup.hosting.server, first.begin(), first.notify());
} catch (const PortTaken& taken) {
  if (setup.hosts() == NodeSetup::Hosts::kFirstCome) return nullptr;
  throw UserError(
      "cannot listen at " + std::string(taken.what()) +
      ". Another run is using this port: give each its own with --rdzv-endpoint=HOST:PORT (or MASTER_PORT)");
}

std::string count_text(const CoordinatorPlan& plan) {
  const auto most = std::to_string(plan.max_nodes);
  return plan.min_nodes == plan.max_nodes ? most : std::to_string(plan.min_nodes) + " to " + most;
}

// Says to people, and to the others, where the server is.
void show_place(const NodeSetup& setup) {
  log::info("first of " + count_text(setup.hosting.server.coordinator) + (setup.is_rank() ? " ranks" : " nodes") +
            "; listens at " + setup.endpoint.text());
  if (setup.placement.agent_store) publish_server(setup.placement, {setup.endpoint, setup.secret.token});
}

// Returns the exit code; nothing if another launcher was first at the endpoint, and this one may join it.
std::optional<int> host_run(NodeSetup setup, const RunRequest& request, const CommonPart& common) {
  FirstNode first(setup, request, common);
  const auto server = listen(setup, first);
  if (!server) return std::nullopt;
  setup.endpoint.port = server->port();
  if (setup.placement.agent_store) setup.endpoint.host = setup.address;
  show_place(setup);
  for (const auto& warning : setup.hosting.warnings) log::warn(warning);
  first.make_run();
  SignalInbox signals;  // holds back torchrun's signals until everything is reported
  const auto deadline = Clock::now() + seconds(setup.config.join_seconds);
  auto link = RemoteLink::open(setup.endpoint, setup.secret, deadline, setup.config.node_timeout_seconds);
  auto info = setup.info(true);
  info.leader_key = server->leader_key();
  const auto node = run_own_node(link, info, setup, request);
  auto result = server->result();
  if (!result) {  // this launcher does not wait for the others, or the coordinator gave up on it
    const bool asked = node.exit_code > kExitSignalBase;
    if (asked) log::warn(node.text);
    result = LaunchResult{.exit_code = node.exit_code, .report = asked ? "" : node.text + "\n"};
  }
  const int exit_code = first.conclude(*result);
  server->wait_for_disconnects();
  signals.take();
  return exit_code;
}

// Lets Slurm start the job again if the run is to continue.
int with_requeue(const NodeSetup& setup, int exit_code) {
  const auto job = setup.config.requeue ? job_to_requeue(process_environment()) : "";
  if (exit_code != kExitPreempted || job.empty()) return exit_code;
  SignalInbox signals;  // Slurm ends a job that it requeues: not before scontrol has answered
  requeue(job);
  signals.take();
  return exit_code;
}

}  // namespace

int run_agent(const NodeSetup& setup, const RunRequest& request) {
  if (setup.standalone()) return with_requeue(setup, run_single_node(setup, request));
  const auto common = common_part(request.checked);
  const bool may_host = setup.hosts() != NodeSetup::Hosts::kNo;
  const auto hosted = may_host ? host_run(setup, request, common) : std::nullopt;
  return hosted ? with_requeue(setup, *hosted) : join_run(setup, request, common);
}

}  // namespace ddprun
