// SPDX-License-Identifier: MIT
// Reads Kubernetes: Kubeflow's PyTorchJob (RANK and WORLD_SIZE of pods) and its TrainJob (PET_*).
#include "cluster/engines.h"

#include <ddprun/error.h>

namespace ddprun {
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
