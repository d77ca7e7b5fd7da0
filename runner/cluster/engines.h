// SPDX-License-Identifier: MIT
// The engines that may have started this process. Each one's variables are read from the environment and checked.
#pragma once

#include "cluster/endpoint.h"
#include "cluster/placement.h"
#include "cluster/setting.h"

#include <optional>
#include <string>

namespace ddprun {

// Returns who set RANK, WORLD_SIZE and LOCAL_RANK: "torchrun" or "ray", which make ranks of their own, so that an
// enclosing step or job counts something else; or "env" for anything else.
std::string torch_engine(const Environment& environment);

// Places a rank of these. A single rank is nobody's, with one worker.
Placement place_torch_rank(Claim claim, const Environment& environment);

// Places a rank that mpirun or mpiexec started.
Placement place_mpi_rank(const Claim& claim, const Environment& environment);

// A Slurm step: what one srun started.
struct SlurmStep {
  Claim claim;  // without local_size
  Setting id;   // SLURM_STEP_ID
  Setting nodes;
  Setting node_id;

  bool one_task_per_node() const { return claim.size->number(1) == nodes.number(1); }
};

// Returns nothing in a batch script and in salloc's shell, which are not steps of several tasks.
std::optional<SlurmStep> find_slurm_step(const Environment& environment);

// Places a task. If there is one per node, this process starts the node's workers, whose number the flags may set; if
// there are more, it is a rank.
Placement place_slurm_task(const SlurmStep& step, const LaunchFlags& flags, const Environment& environment);

// Returns the flags that torchrun would read from PET_*.
LaunchFlags pet_flags(const Environment& environment);

// Returns the flags for a pod of Kubeflow's PyTorchJob: RANK and WORLD_SIZE are the pod's, MASTER_ADDR and MASTER_PORT
// the first pod's, PET_* the rest. Throws UserError if they contradict each other.
LaunchFlags kubeflow_flags(const Claim& pod, const Environment& environment);

// Places this process as the agent of one node. `known` is where several nodes meet if the flags do not say it. A
// single node without a number of workers is nobody's.
Placement place_node(const std::string& engine, const LaunchFlags& flags,
                     const std::optional<Endpoint>& known = std::nullopt);

// Adds to the evidence what is set but was not used, with the reason.
void note_ignored(Placement& placement, const Environment& environment);

// Checks that flags agree with an engine that has counted and numbered the nodes.
void require_same_nodes(const LaunchFlags& flags, const Setting& nodes, const Setting& node_rank);

}  // namespace ddprun
