// SPDX-License-Identifier: MIT
#include "agent/joined_node.h"

#include "agent/error_file.h"
#include "agent/own_node.h"
#include "agent/run_end.h"
#include "agent/run_source.h"
#include "base/log.h"
#include "comm/stores.h"

#include <thread>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAgain{50};  // between tries to join

// Returns whether this launcher reports to people: one per node, the first of the ranks that an engine starts.
bool speaks(const NodeSetup& setup) { return !setup.is_rank() || setup.placement.local_rank == 0; }

void log_joining(const NodeSetup& setup, const Attempt& attempt) {
  if (!speaks(setup)) return;
  const auto place = setup.is_rank() ? log::text("rank ", attempt.first_rank, " of ", attempt.world_size)
                                     : log::text("node ", attempt.node, " of ", attempt.nodes);
  const bool sees = sees_run(attempt.run_dir, attempt.mark);
  log::info("joined as " + place + " at " + setup.endpoint.text() + "; the run's folder is " +
            attempt.run_dir.string() +
            (sees ? ""
                  : " at " + attempt.first_node +
                        ", which this node does not see; its logs go to a local folder of that path"));
}

// Takes from torchrun's store where the run's server is, and its token where this rank was given none.
void find_server(NodeSetup& setup) {
  auto server = find_server(setup.placement, setup.config.join_seconds);
  setup.endpoint = server.endpoint;
  if (setup.secret.token.empty()) setup.secret.token = server.token;
}

// Takes part in the run as a node that is not the first. A script's earlier run may be about to end at the same
// endpoint: until its server has gone, this node asks again.
NodeResult run_joined(const NodeSetup& setup, const PlanAttempt& plan) {
  const auto deadline = Clock::now() + seconds(setup.config.join_seconds);
  bool has_begun = false;
  const auto begin = [&](const Order& order) { return has_begun = true, plan(order); };
  for (;;) {
    auto link = RemoteLink::open(setup.endpoint, setup.secret, deadline, setup.config.node_timeout_seconds);
    auto node = run_node(link, setup.info(false), begin);
    const bool over =
        node.text == kRunIsOver || node.exit_code == kExitFailed;  // or it went while this one was joining
    if (has_begun || !over || setup.placement.earlier_runs == 0 || Clock::now() >= deadline) return node;
    std::this_thread::sleep_for(kAgain);
  }
}

}  // namespace

int join_run(NodeSetup setup, const RunRequest& request, const CommonPart& common) {
  const bool knows_the_first = !setup.secret.token.empty();  // else who has written to torchrun's store may be it
  if (setup.placement.agent_store) find_server(setup);
  const auto& experiment = request.checked.experiment;
  const auto own_folder = request.resumed.empty() ? experiment.run_dir : request.resumed;
  fs::path run_dir;
  const auto node = run_joined(setup, [&](const Order& order) {
    const auto& attempt = order.attempt;
    if (run_dir.empty()) require_same_experiment(order.experiment, common);
    if (!knows_the_first) require_expected_places(attempt, experiment, own_folder);
    if (run_dir.empty()) {
      log_joining(setup, attempt);
      prepare_data(request.checked);
    }
    auto plan = plan_of(setup, request, attempt);
    if (!sees_run(attempt.run_dir, attempt.mark)) make_own_folder(attempt.run_dir, attempt.first_node, plan.config);
    if (run_dir.empty()) inform_caller(attempt.run_dir);
    run_dir = attempt.run_dir;
    return plan;
  });
  write_error_file(setup.placement.error_file, node.own, node.text);
  if (!node.text.empty()) node.exit_code == kExitPreempted ? log::info(node.text) : log::error(node.text);
  if (speaks(setup) && !run_dir.empty() && node.text.empty())
    show_end(run_dir, node.exit_code, experiment.is_range_test());
  return node.exit_code;
}

}  // namespace ddprun
