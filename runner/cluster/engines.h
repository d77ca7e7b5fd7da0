// SPDX-License-Identifier: MIT
// The engines that can have started this process. Each reads what it leaves in the environment, and checks it.
#pragma once

#include "cluster/claim.h"
#include "cluster/endpoint.h"
#include "cluster/environment.h"
#include "cluster/launch_flags.h"
#include "cluster/placement.h"

#include <optional>
#include <string>

namespace ddprun {

// Who set RANK, WORLD_SIZE and LOCAL_RANK: "torchrun" or "ray", which make ranks of their own, so that a step or a job
// around them counts something else; or "env", anything else.
std::string torch_engine(const Environment& environment);

// A rank of those. One rank alone is nobody's, with one worker.
Placement place_torch_rank(Claim claim, const Environment& environment);

// A rank that mpirun or mpiexec started.
Placement place_mpi_rank(const Claim& claim, const Environment& environment);

// A step of Slurm: what one srun started.
struct SlurmStep {
  Claim claim;  // without local_size
  Setting id;   // SLURM_STEP_ID
  Setting nodes;
  Setting node_id;

  bool one_task_per_node() const { return claim.size->number(1) == nodes.number(1); }
};

// Nothing in a batch script and in a shell of salloc, which are not steps of several tasks.
std::optional<SlurmStep> find_slurm_step(const Environment& environment);

// One task per node: the workers of that node are started from here, and the flags may say how many. More: a rank.
Placement place_slurm_task(const SlurmStep& step, const LaunchFlags& flags, const Environment& environment);

// What torchrun would read from PET_*.
LaunchFlags pet_flags(const Environment& environment);

// A pod of Kubeflow's PyTorchJob: RANK and WORLD_SIZE are the pod's, MASTER_ADDR and MASTER_PORT the first one's, PET_*
// the rest. Throws UserError where they contradict each other.
LaunchFlags kubeflow_flags(const Claim& pod, const Environment& environment);

// This process as the starter of one node's workers. `known`: where several nodes meet if the flags do not say it. One
// node with nothing said about its workers is nobody's.
Placement place_node(const std::string& engine, const LaunchFlags& flags,
                     const std::optional<Endpoint>& known = std::nullopt);

// What is set and was not made use of, with the reason, behind the evidence that there is.
void note_ignored(Placement& placement, const Environment& environment);

// Flags beside an engine that has counted and numbered the nodes: they must say the same.
void require_same_nodes(const LaunchFlags& flags, const Setting& nodes, const Setting& node_rank);

}  // namespace ddprun
