// SPDX-License-Identifier: MIT
// What the launchers leave in the environment, for the tests of this folder.
#pragma once

#include "cluster/placement.h"
#include "support/error_of.h"

#include <map>
#include <string>

namespace ddprun::testing {

using Variables = std::map<std::string, std::string>;

// The first with the second's on top; an empty value takes a variable away.
inline Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

inline Placement place(const Variables& variables, const LaunchFlags& flags = {}) {
  return find_placement(flags, Environment(variables));
}

// The error's text; empty where there is none.
inline std::string refusal(const Variables& variables, const LaunchFlags& flags = {}) {
  return error_of([&] { place(variables, flags); });
}

// torchrun 2.11 with two workers on each of two nodes: the third of them.
inline Variables torchrun() {
  return {{"RANK", "2"},
          {"LOCAL_RANK", "0"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"GROUP_RANK", "1"},
          {"GROUP_WORLD_SIZE", "2"},
          {"ROLE_RANK", "2"},
          {"ROLE_WORLD_SIZE", "4"},
          {"MASTER_ADDR", "node1"},
          {"MASTER_PORT", "29400"},
          {"TORCHELASTIC_RESTART_COUNT", "1"},
          {"TORCHELASTIC_MAX_RESTARTS", "3"},
          {"TORCHELASTIC_RUN_ID", "mnist-7"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCHELASTIC_ERROR_FILE", "/tmp/error.json"}};
}

// A task of `srun --nodes 2 --ntasks-per-node 2`: the third.
inline Variables slurm_tasks() {
  return {{"SLURM_JOB_ID", "4242"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "2"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "1"},
          {"SLURM_NTASKS", "4"},
          {"SLURM_STEP_NUM_TASKS", "4"},
          {"SLURM_NNODES", "2"},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_STEP_NODELIST", "gpu[03-04]"},
          {"SLURM_JOB_NODELIST", "gpu[03-04]"},
          {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
          {"SLURM_TASKS_PER_NODE", "2(x2)"}};
}

// The second task of `srun --nodes 2 --ntasks-per-node 1`.
inline Variables slurm_nodes() {
  return with(slurm_tasks(), {{"SLURM_PROCID", "1"},
                              {"SLURM_NTASKS", "2"},
                              {"SLURM_STEP_NUM_TASKS", "2"},
                              {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                              {"SLURM_TASKS_PER_NODE", "1(x2)"}});
}

// The second of `mpirun -n 2` on one machine, by Open MPI 4.
inline Variables openmpi() {
  return {{"OMPI_COMM_WORLD_RANK", "1"},
          {"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"OMPI_COMM_WORLD_NODE_RANK", "1"},
          {"OMPI_UNIVERSE_SIZE", "2"},
          {"PMIX_NAMESPACE", "833028097"},
          {"OMPI_MCA_orte_hnp_uri", "833028096.0;tcp://192.0.2.2:55715"},
          {"PMIX_RANK", "1"}};
}

// The second of `mpiexec -n 2` by MPICH 4.
inline Variables mpich() {
  return {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}, {"PMI_FD", "8"}};
}

// The first worker beside the master of a PyTorchJob.
inline Variables kubeflow() {
  return {{"RANK", "1"},
          {"WORLD_SIZE", "3"},
          {"MASTER_ADDR", "mnist-master-0"},
          {"MASTER_PORT", "23456"},
          {"PYTHONUNBUFFERED", "0"}};
}

}  // namespace ddprun::testing
