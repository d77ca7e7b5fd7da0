// SPDX-License-Identifier: MIT
// Places one node of several by torchrun's options.
#include "cluster/placement.h"

#include <ddprun/error.h>

namespace ddprun {
namespace {

constexpr int kMostNodes = 65536;

struct NodeCount {
  int min = 1, max = 1;
};

NodeCount parse_nodes(const Setting& nnodes) {
  const auto colon = nnodes.value.find(':');
  const auto low = Setting{nnodes.name, nnodes.value.substr(0, colon)}.number(1, kMostNodes);
  if (colon == std::string::npos) return {low, low};
  const auto high = Setting{nnodes.name, nnodes.value.substr(colon + 1)}.number(1, kMostNodes);
  if (high < low) throw UserError(nnodes.text() + ": expected N or MIN:MAX, the smaller number first");
  return {low, high};
}

std::string parse_workers(const Setting& workers) {
  const auto& text = workers.value;
  if (text == "auto" || text == "gpu" || text == "cpu") return text;
  try {
    return std::to_string(workers.number(1, kMostNodes));
  } catch (const UserError&) {
    throw UserError(workers.text() + ": expected a number of at least 1, auto, gpu or cpu");
  }
}

// A flag always gets an answer; a variable only if it would matter.
void check_backend(const Setting& backend, int nodes) {
  const bool counts = nodes > 1 || backend.name.starts_with("--");
  if (!counts || backend.value == "c10d" || backend.value == "static") return;
  throw UserError(backend.text() + ": ddprun's nodes meet at a store of its own, as with c10d and static; " +
                  backend.value + " is not supported. Leave it out");
}

std::optional<Endpoint> find_endpoint(const LaunchFlags& flags, const std::optional<Endpoint>& known) {
  std::optional<Endpoint> master;
  if (flags.master_addr) {
    const auto port = flags.master_port ? parse_port(*flags.master_port) : kDefaultMasterPort;
    master = Endpoint{parse_host(*flags.master_addr), port};
  }
  if (!flags.rdzv_endpoint) return master ? master : known;
  const auto endpoint = parse_endpoint(*flags.rdzv_endpoint, kDefaultRdzvPort);
  constexpr auto kWhy = "both say where the nodes meet; one is enough";
  if (flags.master_addr && endpoint.host != master->host) contradict(*flags.rdzv_endpoint, *flags.master_addr, kWhy);
  if (flags.master_port && endpoint.port != parse_port(*flags.master_port))
    contradict(*flags.rdzv_endpoint, *flags.master_port, kWhy);
  return endpoint;
}

void count_if_given(Placement& placement, const std::optional<Setting>& setting, const std::string& meaning) {
  if (setting) placement.count(*setting, meaning);
}

void place_rendezvous(Placement& placement, const LaunchFlags& flags, const std::optional<Endpoint>& known) {
  if (placement.max_nodes == 1) {
    for (const auto& setting : {flags.rdzv_endpoint, flags.master_addr, flags.master_port}) {
      if (setting) placement.ignore(*setting, "a single node meets nobody");
    }
    return;
  }
  const auto endpoint = find_endpoint(flags, known);
  if (!endpoint) {
    throw UserError(flags.nnodes->text() +
                    ", but where do the nodes meet? Give the first one's address on all of them: --rdzv-endpoint "
                    "HOST:PORT, or the variables MASTER_ADDR and MASTER_PORT");
  }
  placement.host = endpoint->host;
  placement.port = endpoint->port;
  count_if_given(placement, flags.rdzv_endpoint, "where the nodes meet");
  count_if_given(placement, flags.master_addr, "the host where the nodes meet");
  count_if_given(placement, flags.master_port, "the port there");
}

void place_number(Placement& placement, const LaunchFlags& flags) {
  if (flags.nnodes) {
    const auto nodes = parse_nodes(*flags.nnodes);
    placement.min_nodes = nodes.min;
    placement.max_nodes = nodes.max;
    placement.count(*flags.nnodes,
                    nodes.min == nodes.max ? "the number of nodes" : "the minimum and maximum number of nodes");
  }
  if (flags.standalone) {
    if (placement.max_nodes > 1) contradict(*flags.standalone, *flags.nnodes, "a standalone node is the only one");
    placement.count(*flags.standalone, "this node alone");
  }
  if (!flags.node_rank) return;
  const bool by_flag = flags.node_rank->name.starts_with("--");
  if (!by_flag && placement.min_nodes < placement.max_nodes) {
    placement.ignore(*flags.node_rank, "pods that come and go are numbered by the rendezvous");
    return;
  }
  const auto limit = Setting{flags.nnodes ? flags.nnodes->name : "--nnodes", std::to_string(placement.max_nodes)};
  require_below(*flags.node_rank, limit);
  placement.node_rank = flags.node_rank->number(0);
  placement.count(*flags.node_rank, "which of the nodes this is");
}

}  // namespace

Placement place_node(Engine engine, const LaunchFlags& flags, const std::optional<Endpoint>& known) {
  Placement placement{.engine = engine};
  place_number(placement, flags);
  if (flags.nproc_per_node) {
    placement.workers = parse_workers(*flags.nproc_per_node);
    placement.count(*flags.nproc_per_node, "the workers of each node");
  }
  if (flags.rdzv_backend) {
    check_backend(*flags.rdzv_backend, placement.max_nodes);
    placement.ignore(*flags.rdzv_backend, "ddprun has a rendezvous of its own");
  }
  place_rendezvous(placement, flags, known);
  if (flags.rdzv_id && flags.rdzv_id->value != "none") {
    placement.job_id = flags.rdzv_id->value;
    placement.count(*flags.rdzv_id, "the name of the job");
  }
  if (flags.max_restarts) {
    placement.max_restarts = flags.max_restarts->number(0);
    placement.count(*flags.max_restarts, "how often failed workers are restarted");
  }
  if (placement.max_nodes == 1) {
    placement.node_rank = 0;
    if (placement.workers.empty()) placement.engine = Engine::kNobody;
  }
  return placement;
}

void require_same_nodes(const LaunchFlags& flags, const Setting& nodes, const Setting& node_rank) {
  if (flags.nnodes) {
    const auto asked = parse_nodes(*flags.nnodes), there = parse_nodes(nodes);
    if (there.min < asked.min || there.max > asked.max)
      contradict(*flags.nnodes, nodes, "both say how many nodes there are; leave the flag out");
  }
  if (flags.node_rank && flags.node_rank->number(0) != node_rank.number(0))
    contradict(*flags.node_rank, node_rank, "both say which of the nodes this is; leave the flag out");
}

// Kubernetes: Kubeflow's PyTorchJob (RANK and WORLD_SIZE of pods) and its TrainJob (PET_*).
namespace {

std::optional<Setting> find_true(const Environment& environment, const char* name) {
  auto setting = environment.find(name);
  if (!setting || setting->value == "0" || setting->value == "false" || setting->value == "False") return std::nullopt;
  return setting;
}

// The operator counts the pods or, if it knows the workers of each, all workers.
void require_world(const LaunchFlags& pet, const Setting& world_size) {
  if (!pet.nnodes || pet.nnodes->value.find(':') != std::string::npos) return;
  const auto nodes = pet.nnodes->number(1), world = world_size.number(1);
  const bool counted =
      pet.nproc_per_node && pet.nproc_per_node->value.find_first_not_of("0123456789") == std::string::npos;
  const auto workers = counted ? pet.nproc_per_node->number(1) : 1;
  if (world != nodes && world != int64_t{nodes} * workers)
    contradict(world_size, *pet.nnodes, "the first is neither the number of pods nor that of all their workers");
}

}  // namespace

LaunchFlags pet_flags(const Environment& environment) {
  return {.nnodes = environment.find("PET_NNODES"),
          .nproc_per_node = environment.find({"PET_NPROC_PER_NODE", "PET_N_PROC_PER_NODE"}),
          .node_rank = environment.find("PET_NODE_RANK"),
          .rdzv_endpoint = environment.find("PET_RDZV_ENDPOINT"),
          .master_addr = environment.find("PET_MASTER_ADDR"),
          .master_port = environment.find("PET_MASTER_PORT"),
          .rdzv_id = environment.find("PET_RDZV_ID"),
          .rdzv_backend = environment.find("PET_RDZV_BACKEND"),
          .max_restarts = environment.find("PET_MAX_RESTARTS"),
          .standalone = find_true(environment, "PET_STANDALONE")};
}

LaunchFlags kubeflow_flags(const Claim& pod, const Environment& environment) {
  const auto pet = pet_flags(environment);
  require_world(pet, *pod.size);
  if (pet.node_rank && pet.node_rank->number(0) != pod.rank->number(0))
    contradict(*pod.rank, *pet.node_rank, "both say which of the pods this is");
  return pet.over({.nnodes = pod.size,
                   .node_rank = pod.rank,
                   .master_addr = environment.find("MASTER_ADDR"),
                   .master_port = environment.find("MASTER_PORT")});
}

}  // namespace ddprun
