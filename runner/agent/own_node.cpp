// SPDX-License-Identifier: MIT
#include "agent/own_node.h"

#include "agent/error_file.h"
#include "rendezvous/address.h"

namespace ddprun {
namespace {

// Enables NCCL's flight recorder for collectives that fail or time out. It writes to this machine's disk, for which 2 s
// are plenty: its watchdog waits four times as long before it ends the process, a minute by default.
Variables flight_recorder(const std::string& run_dir) {
  const auto own = process_environment();
  Variables variables;
  if (!own.has("TORCH_FR_DUMP_TEMP_FILE")) {
    variables.emplace_back("TORCH_FR_DUMP_TEMP_FILE", run_dir + "/logs/collectives_rank_");
    variables.emplace_back("TORCH_NCCL_DUMP_ON_TIMEOUT", "1");
  }
  constexpr auto kWait = "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC";
  if (!own.has(kWait)) variables.emplace_back(kWait, "2000");
  return variables;
}

}  // namespace

LaunchPlan attempt_plan(const NodeSetup& setup, const Attempt& attempt) {
  const bool on_gpu = setup.launch.device == Device::kGpu;
  const auto recorder = on_gpu ? flight_recorder(attempt.run_dir) : Variables();
  auto plan = setup.plan;
  plan.environment.insert(plan.environment.end(), recorder.begin(), recorder.end());
  auto& place = plan.place;
  place.attempt = attempt;
  place.machines = attempt.nodes;
  plan.grace_seconds = setup.config.grace_seconds;
  plan.hang_seconds = setup.config.hang_seconds;
  plan.timeout_seconds = setup.config.timeout_seconds;
  if (attempt.world_size > 1) plan.device += " over " + setup.config.exchange(on_gpu);
  if (setup.placement.ends_at > 0 && setup.config.end_margin_seconds > 0)
    plan.ends_at = setup.placement.ends_at - setup.config.end_margin_seconds;
  if (setup.is_rank()) {
    place.local_rank = setup.placement.local_rank;
    place.local_world_size = setup.placement.local_world_size;
    place.machines = attempt.world_size / place.local_world_size;
    plan.environment.emplace_back("TERM", "dumb");  // output of an engine's ranks ends in its log: no bar, no colours
    if (attempt.node > 0) plan.stopping.clear();    // rank 0's launcher reports it
    if (setup.launch.gpu) place.gpu = *setup.launch.gpu;
  }
  if (setup.standalone()) return plan;
  plan.host = setup.host;
  place.store = StorePlace{setup.endpoint, attempt_prefix(attempt.number)}.text();
  place.address = setup.address;
  for (auto& variable : secret_variables(setup.secret)) plan.environment.push_back(std::move(variable));
  return plan;
}

LaunchPlan plan_of(const NodeSetup& setup, const RunRequest& request, const Attempt& attempt) {
  auto plan = attempt_plan(setup, attempt);
  plan.plugins = request.checked.places;
  plan.place.started_at = request.started_at;
  plan.config = to_yaml(request.checked.experiment.config, /*origins=*/true);
  if (request.checked.experiment.is_range_test() && !plan.stopping.empty()) plan.stopping = "stopping";
  return plan;
}

NodeResult run_own_node(ControlLink& link, const NodeInfo& info, const NodeSetup& setup, const RunRequest& request) {
  const auto node = run_node(link, info, [&](const Order& start) { return plan_of(setup, request, start.attempt); });
  write_error_file(setup.placement.error_file, node.own, node.text);
  return node;
}

}  // namespace ddprun
