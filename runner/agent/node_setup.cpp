// SPDX-License-Identifier: MIT
#include "agent/node_setup.h"

#include "agent/checked_experiment.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/program.h"
#include "rendezvous/address.h"
#include "submit/requeue.h"

#include <ddprun/error.h>

#include <fstream>

namespace ddprun {
namespace {

// Allows a launcher time after it has asked its workers to end: the grace after a failure, SIGKILL, a process that even
// then does not end (launcher.cpp), and the message back.
constexpr double kTimeToSay = 30;

std::string nodes_text(const LaunchConfig& config) {
  const auto least = std::to_string(config.min_nodes);
  return config.min_nodes == config.max_nodes ? least : least + ":" + std::to_string(config.max_nodes);
}

// Fills in flags that were not given from what the experiment says of nodes.
LaunchFlags with_experiment(LaunchFlags flags, const LaunchConfig& config) {
  if (!flags.nnodes && config.max_nodes > 1) flags.nnodes = Setting{"launch.nodes", nodes_text(config)};
  return flags;
}

Placement place(const LaunchFlags& flags, const LaunchConfig& config, const Environment& environment) {
  const auto placement = find_placement(flags, environment);
  return placement.engine == Engine::kNobody ? find_placement(with_experiment(flags, config), environment) : placement;
}

// Sets this node's workers if the flags give them or an engine has started each rank itself.
LaunchConfig with_placement(LaunchConfig config, const Placement& placement, const Machine& machine) {
  const auto& workers = placement.workers;
  if (placement.role == Role::kRank) {
    config.workers = placement.local_world_size;
  } else if (workers == "auto" || workers == "gpu") {
    config.workers = 0;
    if (workers == "gpu") config.device = Device::kGpu;
  } else if (workers == "cpu") {
    config.workers = machine.cores;
    config.device = Device::kCpu;
  } else if (!workers.empty()) {
    config.workers = std::stol(workers);
  }
  return config;
}

// Removes the blanks that editors and shells add at the ends.
std::string trimmed(const std::string& text) {
  constexpr auto kBlanks = " \t\r\n";
  const auto begin = text.find_first_not_of(kBlanks);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::string read_token(const LaunchConfig& config) {
  if (config.token_file.empty()) return trimmed(secret_from_environment().token);
  const auto& path = config.token_file;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const auto token = trimmed(line);
  if (token.empty())
    throw UserError("launch.token_file: " + path.string() + " cannot be read, or its first line is empty");
  std::error_code error;
  const auto others = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
  if ((std::filesystem::status(path, error).permissions() & others) != std::filesystem::perms::none)
    throw UserError("launch.token_file: " + path.string() + " is accessible to other users; run chmod 600 " +
                    path.string());
  return token;
}

// Returns whether an engine shows each of a node's ranks a different single GPU: srun --gpus-per-task=1.
bool sees_one_of_several(const Placement& placement, const Machine& machine, const Environment& environment) {
  return placement.role == Role::kRank && placement.local_world_size > 1 && machine.gpus == 1 &&
         environment.has("CUDA_VISIBLE_DEVICES");
}

// Enables NCCL's flight recorder for collectives that fail or time out. It writes to this machine's disk, for which 2 s
// are plenty: its watchdog waits four times as long before it ends the process, a minute by default.
void add_flight_recorder(std::vector<std::pair<std::string, std::string>>& environment, const std::string& run_dir) {
  const auto own = process_environment();
  if (!own.has("TORCH_FR_DUMP_TEMP_FILE")) {
    environment.emplace_back("TORCH_FR_DUMP_TEMP_FILE", run_dir + "/logs/collectives_rank_");
    environment.emplace_back("TORCH_NCCL_DUMP_ON_TIMEOUT", "1");
  }
  constexpr auto kWait = "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC";
  if (!own.has(kWait)) environment.emplace_back(kWait, "2000");
}

// Returns whether Slurm has bound each of a node's ranks to its own cores: srun --cpus-per-task=8. The cores of all
// ranks would be that many times more.
bool has_cores_of_its_own(const Placement& placement, const Machine& machine, const Environment& environment) {
  const auto setting = environment.find("SLURM_CPUS_PER_TASK");
  if (placement.role != Role::kRank || !setting) return false;
  const auto cores = std::strtol(setting->value.c_str(), nullptr, 10);
  return machine.cores < cores * placement.local_world_size;
}

// Returns this machine's address for the others: the experiment's, or that of the route to the endpoint.
std::string own_address(const std::string& wanted, const Endpoint& endpoint) {
  if (wanted.empty()) return local_address_towards(endpoint);
  if (is_this_machine({wanted, 0})) return wanted;
  throw UserError("launch.address: " + wanted + " is not an address of this machine, which has " + own_addresses() +
                  ". Give each node its own, or omit it to use the one on the route to " + endpoint.text());
}

// Checks that each worker would have a part of the batch if as many nodes like this one came as may: a run must not
// fail when they do. Where all come before it begins, or each has as many workers as GPUs, their number shows then.
void require_parts_for_all_nodes(const TrainerConfig& trainer, int64_t workers, const Placement& placement) {
  const auto all = workers * placement.max_nodes;
  if (placement.role == Role::kRank || placement.min_nodes == placement.max_nodes || all == 0) return;
  require_a_part_for_each(trainer, all, log::text(all, " workers on up to ", placement.max_nodes, " nodes"));
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
  NodeSetup setup{.placement = place(flags, experiment.launch, environment),
                  .config = experiment.launch,
                  .host = host_name(),
                  .plugins = plugin_places(experiment)};
  const auto& placement = setup.placement;
  setup.endpoint = {placement.host, placement.port};
  if (experiment.trainer.strategy == Strategy::kDp) require_one_process(setup);
  auto node = machine;
  if (sees_one_of_several(placement, machine, environment)) {
    node.gpus = placement.local_world_size;
    setup.gpu = 0;
  }
  if (has_cores_of_its_own(placement, machine, environment)) node.cores *= placement.local_world_size;
  const auto wanted = with_placement(experiment.launch, placement, node);
  require_parts_for_all_nodes(experiment.trainer, wanted.workers, placement);
  setup.launch = choose_launch(wanted, experiment.trainer, node);
  if (setup.is_rank()) setup.launch.workers = 1;
  if (setup.standalone()) return setup;
  setup.secret = {.id = placement.job_id, .token = read_token(experiment.launch)};
  setup.address = own_address(experiment.launch.address, setup.endpoint);
  return setup;
}

NodeSetup::Hosts NodeSetup::hosts() const {
  if (placement.role == Role::kRank) return placement.rank == 0 ? Hosts::kYes : Hosts::kNo;
  if (placement.node_rank) return *placement.node_rank == 0 ? Hosts::kYes : Hosts::kNo;
  return is_this_machine(endpoint) ? Hosts::kFirstCome : Hosts::kNo;
}

NodeInfo NodeSetup::info(bool first) const {
  return {.host = host,
          .address = address,
          .rank = is_rank() ? placement.rank : placement.node_rank,
          .workers = static_cast<int>(launch.workers),
          .device = std::string(word_of(launch.device)),
          .first = first};
}

CoordinatorPlan NodeSetup::coordination() const {
  CoordinatorPlan plan{.min_nodes = is_rank() ? placement.world_size : placement.min_nodes,
                       .max_nodes = is_rank() ? placement.world_size : placement.max_nodes,
                       .max_restarts = placement.max_restarts.value_or(static_cast<int>(config.max_restarts)),
                       .join_seconds = config.join_seconds,
                       .first_pause_seconds = config.restart_seconds,
                       .stop_seconds = config.grace_seconds + kTimeToSay,
                       .abort_seconds = kTimeToSay};
  if (placement.engine_restarts) plan.max_restarts = 0;
  return plan;
}

void find_end_of_job(NodeSetup& setup, const Environment& environment) {
  if (setup.placement.ends_at > 0 || setup.config.end_margin_seconds <= 0) return;
  if (const auto left = slurm_time_left(environment))
    setup.placement.ends_at = static_cast<int>(wall_seconds() + *left);
}

std::vector<std::string> warnings_of_openness(const NodeSetup& setup) {
  constexpr size_t kWeak = 16;
  const auto& token = setup.secret.token;
  std::vector<std::string> warnings;
  if (!setup.placement.agent_store && !is_this_machine(setup.endpoint))
    warnings.push_back(setup.endpoint.host + " is not an address of this machine (" + own_addresses() +
                       "): listening on all of them; launch.address chooses one");
  if (is_loopback(setup.address)) return warnings;
  if (token.empty())
    warnings.push_back("no DDPRUN_TOKEN and no launch.token_file: anyone who can reach " + setup.endpoint.text() +
                       " can join this run or impersonate its first node. Set the same on all nodes: export "
                       "DDPRUN_TOKEN=$(openssl rand -hex 32)");
  if (!token.empty() && token.size() < kWeak)
    warnings.push_back(
        log::text("a token of ", token.size(), " characters is too short; use the output of openssl rand -hex 32"));
  return warnings;
}

LaunchPlan attempt_plan(const NodeSetup& setup, const Attempt& attempt) {
  auto plan = node_plan(setup.launch);
  auto& place = plan.place;
  place.attempt = attempt;
  place.machines = attempt.nodes;
  plan.grace_seconds = setup.config.grace_seconds;
  plan.hang_seconds = setup.config.hang_seconds;
  plan.timeout_seconds = setup.config.timeout_seconds;
  plan.plugins = setup.plugins;
  const bool on_gpu = setup.launch.device == Device::kGpu;
  plan.device = word_of(setup.launch.device);
  if (attempt.world_size > 1) plan.device += " over " + setup.config.exchange(on_gpu);
  if (setup.placement.ends_at > 0 && setup.config.end_margin_seconds > 0)
    plan.ends_at = setup.placement.ends_at - setup.config.end_margin_seconds;
  if (setup.is_rank()) {
    place.local_rank = setup.placement.local_rank;
    place.local_world_size = setup.placement.local_world_size;
    place.machines = attempt.world_size / place.local_world_size;
    plan.environment.emplace_back("TERM", "dumb");  // output of an engine's ranks ends in its log: no bar, no colours
    if (attempt.node > 0) plan.stopping.clear();    // rank 0's launcher reports it
    if (setup.gpu) place.gpu = *setup.gpu;
  }
  if (on_gpu) add_flight_recorder(plan.environment, attempt.run_dir);
  if (setup.standalone()) return plan;
  plan.host = setup.host;
  place.store = StorePlace{setup.endpoint, attempt_prefix(attempt.number)}.text();
  place.address = setup.address;
  for (auto& variable : secret_variables(setup.secret)) plan.environment.push_back(std::move(variable));
  return plan;
}

}  // namespace ddprun
