// SPDX-License-Identifier: MIT
// How this process was started and its place in a job of several nodes, from the command line's flags and from what
// torchrun, Slurm, MPI, Kubeflow and Ray leave in the environment. Does not need LibTorch.
#pragma once

#include "base/words.h"
#include "cluster/endpoint.h"
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

// Who has started this process or says where it stands. kNobody: this command alone; kEnv: RANK, WORLD_SIZE and
// LOCAL_RANK from something that is none of the others.
enum class Engine { kNobody, kFlags, kTorchrun, kSlurm, kOpenMpi, kMpich, kKubeflow, kPet, kRay, kEnv };
template <>
struct WordsOf<Engine> {
  static constexpr auto kAll = std::to_array<std::string_view>(
      {"", "flags", "torchrun", "slurm", "openmpi", "mpich", "kubeflow", "pet", "ray", "env"});
};

struct Placement {
  Engine engine = Engine::kNobody;
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
  int earlier_runs = 0;          // that the same script has started here before: DDPRUN_EARLIER_RUNS, by ddprun.train
  int ends_at = 0;               // seconds since 1970 when the engine ends the job; 0: unknown
  bool engine_restarts = false;  // torchrun restarts failed workers, so ddprun must not
  std::string error_file;        // where torchrun reads why a worker failed; empty: nowhere
  std::optional<int> max_restarts;

  std::vector<Evidence> evidence;  // in the order in which it was examined

  void count(const Setting& setting, const std::string& meaning);
  void ignore(const Setting& setting, const std::string& reason);
};

// torchrun's options, from the command line or from the PET_* variables that torchrun would read. Each has the name
// under which it was given, for error messages. Nothing is checked yet.
struct LaunchFlags {
  std::optional<Setting> nnodes;          // N or MIN:MAX
  std::optional<Setting> nproc_per_node;  // N, auto, gpu or cpu
  std::optional<Setting> node_rank;
  std::optional<Setting> rdzv_endpoint;  // host[:port]
  std::optional<Setting> master_addr;    // the same in two parts
  std::optional<Setting> master_port;
  std::optional<Setting> rdzv_id;
  std::optional<Setting> rdzv_backend;
  std::optional<Setting> max_restarts;
  std::optional<Setting> standalone;  // set by the flag alone, whatever its value

  // Returns any flag that was given, or nothing.
  std::optional<Setting> first() const;

  // Returns these flags, completed from `others`. The endpoint is taken as a whole, however many flags it comes in.
  LaunchFlags over(const LaunchFlags& others) const;
};

// Uses the flags, if given, otherwise the innermost engine: torchrun or whatever else set RANK, WORLD_SIZE and
// LOCAL_RANK, Open MPI, a step of Slurm, MPICH, Kubeflow, PET_*, nobody. Throws UserError for a contradiction, naming
// both sides with their values, for a malformed number, and if something needed is missing. `otherwise` are flags that
// count where nobody says anything.
Placement find_placement(const LaunchFlags& flags, const Environment& environment, const LaunchFlags& otherwise = {});

// What one engine says about this process: which rank of how many it is.
struct Claim {
  Engine engine = Engine::kNobody;
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

// What follows is of one engine each: reads its variables from the environment, and checks them.

// Returns who set RANK, WORLD_SIZE and LOCAL_RANK: torchrun or Ray, which make ranks of their own, so that an
// enclosing step or job counts something else; or kEnv for anything else.
Engine torch_engine(const Environment& environment);

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
Placement place_node(Engine engine, const LaunchFlags& flags, const std::optional<Endpoint>& known = std::nullopt);

// Adds to the evidence what is set but was not used, with the reason.
void note_ignored(Placement& placement, const Environment& environment);

// Checks that flags agree with an engine that has counted and numbered the nodes.
void require_same_nodes(const LaunchFlags& flags, const Setting& nodes, const Setting& node_rank);

}  // namespace ddprun
