// SPDX-License-Identifier: MIT
// How this process was started and its place in a job of several nodes, from the command line's flags and from what
// torchrun, Slurm, MPI, Kubeflow and Ray leave in the environment. Does not need LibTorch.
#pragma once

#include "cluster/setting.h"

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

enum class Role {
  kNode,  // the agent of a node: this process starts its workers
  kRank,  // an engine started one process per rank, and this is one
};

// What one variable or flag said, and what was concluded.
struct Evidence {
  std::string variable;
  std::string value;
  std::string meaning;
  bool counted = true;  // false: it was seen and ignored, and the meaning says why
};

struct Placement {
  // One of "" (nobody: this command alone), "flags", "torchrun", "slurm", "openmpi", "mpich", "kubeflow", "pet", "ray",
  // or "env": RANK, WORLD_SIZE and LOCAL_RANK from something else.
  std::string engine;
  Role role = Role::kNode;

  // These are for a node.
  int min_nodes = 1, max_nodes = 1;
  std::optional<int> node_rank;  // nothing: the rendezvous assigns it
  std::string workers;           // "auto", "gpu", "cpu" or a number; "": as the experiment's launch.workers says

  // These are for a rank.
  int rank = 0, world_size = 1, local_rank = 0, local_world_size = 1;

  // These are for both.
  std::string host;  // of the first node's rendezvous; empty for one node, which needs none
  int port = 0;
  bool agent_store = false;      // torchrun's own store listens there: connect, do not serve
  std::string job_id;            // the same over restarts and requeues; empty: unknown
  int restart_count = 0;         // how often the engine has restarted this job
  int ends_at = 0;               // seconds since 1970 when the engine ends the job; 0: unknown
  bool engine_restarts = false;  // torchrun restarts failed workers, so ddprun must not
  std::string error_file;        // where torchrun reads why a worker failed; empty: nowhere
  std::optional<int> max_restarts;

  std::vector<Evidence> evidence;  // in the order in which it was examined

  void count(const Setting& setting, const std::string& meaning);
  void ignore(const Setting& setting, const std::string& reason);
};

// Uses the flags, if given, otherwise the innermost engine: torchrun or whatever else set RANK, WORLD_SIZE and
// LOCAL_RANK, Open MPI, a step of Slurm, MPICH, Kubeflow, PET_*, nobody. Throws UserError for a contradiction, naming
// both sides with their values, for a malformed number, and if something needed is missing.
Placement find_placement(const LaunchFlags& flags, const Environment& environment);

// What one engine says about this process: which rank of how many it is.
struct Claim {
  std::string engine;
  std::optional<Setting> rank, size, local_rank, local_size;
  std::string local_rank_name, local_size_name;  // their names there, for errors

  bool several() const { return rank && size && size->number(1) > 1; }
};

Claim torch_claim(const Environment& environment);  // RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, in part or whole
Claim openmpi_claim(const Environment& environment);  // OMPI_COMM_WORLD_*
Claim mpich_claim(const Environment& environment);    // PMI_*: MPICH, Intel MPI, and Slurm if it serves them

// Throws UserError for the first number on which both differ.
void require_agreement(const Claim& claim, const Claim& other);

// Places this process as the claimed rank of several. Throws UserError if something is missing or not below its limit.
Placement place_rank(const Claim& claim);

}  // namespace ddprun
