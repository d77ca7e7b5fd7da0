// SPDX-License-Identifier: MIT
// Variables that mean something only elsewhere.
#include "cluster/placement.h"

#include <algorithm>

namespace ddprun {
namespace {

enum class Family { kTorch, kAddress, kOpenMpi, kMpich, kSlurm, kPet };

struct Known {
  const char* name;
  Family family;
};

constexpr Known kKnown[] = {
    {"RANK", Family::kTorch},
    {"WORLD_SIZE", Family::kTorch},
    {"LOCAL_RANK", Family::kTorch},
    {"LOCAL_WORLD_SIZE", Family::kTorch},
    {"NODE_RANK", Family::kTorch},
    {"GROUP_RANK", Family::kTorch},
    {"TORCHELASTIC_RUN_ID", Family::kTorch},
    {"MASTER_ADDR", Family::kAddress},
    {"MASTER_PORT", Family::kAddress},
    {"OMPI_COMM_WORLD_RANK", Family::kOpenMpi},
    {"OMPI_COMM_WORLD_SIZE", Family::kOpenMpi},
    {"PMI_RANK", Family::kMpich},
    {"PMI_SIZE", Family::kMpich},
    {"SLURM_STEP_ID", Family::kSlurm},
    {"SLURM_PROCID", Family::kSlurm},
    {"SLURM_STEP_NUM_TASKS", Family::kSlurm},
    {"SLURM_NTASKS", Family::kSlurm},
    {"SLURM_NTASKS_PER_NODE", Family::kSlurm},  // of the job; a step may spread its tasks otherwise
    {"PET_NNODES", Family::kPet},
    {"PET_NPROC_PER_NODE", Family::kPet},
    {"PET_N_PROC_PER_NODE", Family::kPet},
    {"PET_NODE_RANK", Family::kPet},
    {"PET_RDZV_ENDPOINT", Family::kPet},
    {"PET_MASTER_ADDR", Family::kPet},
    {"PET_MASTER_PORT", Family::kPet},
    {"PET_RDZV_ID", Family::kPet},
    {"PET_MAX_RESTARTS", Family::kPet},
};

std::string reason_beside(Engine engine) {
  if (engine == Engine::kFlags) return "the flags take precedence";
  return engine == Engine::kEnv ? "RANK and its like take precedence"
                                : std::string(word_of(engine)) + " takes precedence";
}

std::string reason_of_slurm(const Placement& placement, const Environment& environment) {
  if (placement.engine == Engine::kSlurm) return "the step's own variables take precedence";
  if (placement.engine != Engine::kNobody) return reason_beside(placement.engine) + ": Slurm counts what it runs in";
  const bool step = environment.has("SLURM_STEP_ID");
  return step ? "a step of one task" : "the batch script's or salloc's: only srun starts several tasks";
}

std::string reason_for(Family family, const Placement& placement, const Environment& environment) {
  if (family == Family::kSlurm) return reason_of_slurm(placement, environment);
  const auto engine = placement.engine;
  if (family == Family::kPet && (engine == Engine::kPet || engine == Engine::kKubeflow))
    return "another of them takes precedence";
  if (engine != Engine::kNobody) return reason_beside(engine);
  return family == Family::kTorch ? "it says nothing by itself" : "a single node meets nobody";
}

}  // namespace

void note_ignored(Placement& placement, const Environment& environment) {
  const auto is_noted = [&](const char* name) {
    return std::ranges::any_of(placement.evidence, [&](const auto& evidence) { return evidence.variable == name; });
  };
  for (const auto& [name, family] : kKnown) {
    const auto setting = environment.find(name);
    if (setting && !is_noted(name)) placement.ignore(*setting, reason_for(family, placement, environment));
  }
}

}  // namespace ddprun
