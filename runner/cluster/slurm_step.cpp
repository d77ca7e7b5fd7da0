// SPDX-License-Identifier: MIT
// The tasks of a Slurm step.
#include "cluster/placement.h"
#include "cluster/slurm.h"

#include <ddprun/error.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace ddprun {
namespace {

// Slurm's own steps have the last of the 32-bit numbers: the batch script, salloc's shell, what ssh adopts. They are
// one process.
bool is_own_step(const Setting& id) {
  constexpr uint32_t kFirstOwn = 0xFFFFFFF0U;
  uint32_t number = 0;
  const auto result = std::from_chars(id.value.data(), id.value.data() + id.value.size(), number);
  return result.ec == std::errc{} && number >= kFirstOwn;
}

std::optional<Setting> node_list(const Environment& environment) {
  return environment.find({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
}

Setting need(const std::optional<Setting>& setting, const Setting& beside, const char* name) {
  if (!setting) throw UserError(beside.text() + ", but " + name + " is not set; srun sets both");
  return *setting;
}

// Returns where several nodes meet: MASTER_ADDR, or else the first node.
std::string find_host(Placement& placement, const SlurmStep& step, const Environment& environment) {
  const auto list = need(node_list(environment), step.nodes, "SLURM_STEP_NODELIST");
  const auto hosts = expand_hosts(list);
  const auto address = environment.find("MASTER_ADDR");
  if (address) {
    const bool another = std::ranges::find(hosts.begin() + 1, hosts.end(), address->value) != hosts.end();
    if (another || is_loopback(address->value))
      contradict(*address, list,
                 "rank 0 is on the first of the nodes, and the others look for it there. Unset the first");
    placement.count(*address, "the host where the nodes meet");
    return parse_host(*address);
  }
  if (step.claim.rank->number(0) == 0 && step.node_id.number(0) != 0)
    contradict(*step.claim.rank, step.node_id, "rank 0 is not on the first node: set MASTER_ADDR to its host");
  placement.count(list, "the nodes meet at its first host, " + hosts.front());
  return hosts.front();
}

// Returns MASTER_PORT, or 20000 + (37 * job + step) mod 10000: different for each step of a job, and for the first 37
// steps of jobs with neighbouring numbers.
int find_port(Placement& placement, const SlurmStep& step, const Environment& environment) {
  if (const auto port = environment.find("MASTER_PORT")) {
    placement.count(*port, "the port there");
    return parse_port(*port);
  }
  const auto job = need(environment.find({"SLURM_JOB_ID", "SLURM_JOBID"}), step.id, "SLURM_JOB_ID");
  const int64_t number = int64_t{37} * job.number(0) + step.id.number(0);
  const auto port = 20000 + static_cast<int>(number % 10000);
  placement.count(step.id, "the port, " + std::to_string(port) + ", is derived from it and " + job.name);
  return port;
}

// Returns how many of the tasks are on this node.
Setting local_size(const SlurmStep& step, const Environment& environment) {
  const auto list = environment.find({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  if (!list && step.nodes.number(1) == 1) return *step.claim.size;
  const auto counts = expand_task_counts(need(list, *step.claim.size, "SLURM_STEP_TASKS_PER_NODE"));
  const auto node = static_cast<size_t>(step.node_id.number(0));
  if (node >= counts.size())
    contradict(step.node_id, *list, "the second lists the tasks of " + std::to_string(counts.size()) + " nodes");
  return {list->name + "[" + std::to_string(node) + "]", std::to_string(counts[node])};
}

Placement place_node_task(const SlurmStep& step, const LaunchFlags& flags, const Environment& environment) {
  require_same_nodes(flags, step.nodes, step.node_id);
  Placement read;
  read.count(step.id, "srun started this process");
  read.count(*step.claim.size, "its tasks: one for each node, which starts the node's workers");
  auto options = flags;
  options.nnodes = step.nodes;
  options.node_rank = step.node_id;
  std::optional<Endpoint> known;
  if (!flags.rdzv_endpoint && !flags.master_addr && !flags.standalone) {
    const auto host = find_host(read, step, environment);
    known = Endpoint{host, flags.master_port ? parse_port(*flags.master_port) : find_port(read, step, environment)};
  }
  auto placement = place_node(Engine::kSlurm, options, known);
  placement.evidence.insert(placement.evidence.begin(), read.evidence.begin(), read.evidence.end());
  return placement;
}

}  // namespace

std::optional<SlurmStep> find_slurm_step(const Environment& environment) {
  const auto id = environment.find("SLURM_STEP_ID"), rank = environment.find("SLURM_PROCID");
  const auto tasks = environment.find({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"});
  if (!id || !rank || !tasks || is_own_step(*id)) return std::nullopt;
  SlurmStep step{.claim = {.engine = Engine::kSlurm,
                           .rank = rank,
                           .size = tasks,
                           .local_rank = environment.find("SLURM_LOCALID"),
                           .local_rank_name = "SLURM_LOCALID",
                           .local_size_name = "SLURM_STEP_TASKS_PER_NODE"},
                 .id = *id};
  if (!step.claim.several()) return std::nullopt;
  require_below(*rank, *tasks);
  if (const auto nodes = environment.find({"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"})) {
    step.nodes = *nodes;
  } else {
    const auto list = need(node_list(environment), *tasks, "SLURM_STEP_NUM_NODES");
    step.nodes = {"nodes in " + list.name, std::to_string(expand_hosts(list).size())};
  }
  step.node_id = need(environment.find("SLURM_NODEID"), *rank, "SLURM_NODEID");
  require_below(step.node_id, step.nodes);
  return step;
}

Placement place_slurm_task(const SlurmStep& step, const LaunchFlags& flags, const Environment& environment) {
  if (step.one_task_per_node()) return place_node_task(step, flags, environment);
  auto claim = step.claim;
  claim.local_size = local_size(step, environment);
  auto placement = place_rank(claim);
  if (step.nodes.number(1) == 1) {
    placement.host = "127.0.0.1";
    if (const auto address = environment.find("MASTER_ADDR"))
      placement.ignore(*address, "all ranks are on this node and meet at 127.0.0.1");
  } else {
    placement.host = find_host(placement, step, environment);
  }
  placement.port = find_port(placement, step, environment);
  return placement;
}

}  // namespace ddprun
