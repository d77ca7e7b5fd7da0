// SPDX-License-Identifier: MIT
#include "cluster/placement.h"

#include "cluster/slurm.h"

#include <ddprun/error.h>

namespace ddprun {
namespace {

// Everything that says which rank this process is, and what decided.
struct Claims {
  Claim torch, openmpi, mpich;
  std::optional<SlurmStep> step;
};

Claims find_claims(const Environment& environment) {
  return {.torch = torch_claim(environment),
          .openmpi = openmpi_claim(environment),
          .mpich = mpich_claim(environment),
          .step = find_slurm_step(environment)};
}

// Returns true if mpirun put its ranks into a step of one task per node: the step's tasks are then mpirun's own.
bool is_inside(const Claim& mpi, const SlurmStep& step) {
  return step.one_task_per_node() && mpi.size->number(1) != step.claim.size->number(1);
}

void require_agreement_of_all(const Claim& chosen, const Claims& claims) {
  require_agreement(claims.torch, chosen);
  const bool mpi = chosen.engine == Engine::kOpenMpi || chosen.engine == Engine::kMpich;
  if (mpi && claims.step && is_inside(chosen, *claims.step)) return;
  for (const auto& other : {claims.openmpi, claims.mpich}) {
    if (other.several()) require_agreement(chosen, other);
  }
  if (claims.step) require_agreement(chosen, claims.step->claim);
}

void refuse_flags(const LaunchFlags& flags, const Claim& claim, Engine engine) {
  const auto flag = flags.first();
  if (!flag) return;
  const auto who = engine == Engine::kEnv ? "who set it" : std::string(word_of(engine));
  contradict(*flag, *claim.size, who + " has started every rank already, this process too; leave the flag out");
}

// Returns one of several ranks or nodes, as an engine says it, or nothing if none does.
std::optional<Placement> place_by_engine(const Claims& claims, const LaunchFlags& flags,
                                         const Environment& environment) {
  const auto& [torch, openmpi, mpich, step] = claims;
  if (torch.rank && torch.size && torch.local_rank) {
    const auto engine = torch_engine(environment);
    if (engine == Engine::kEnv) require_agreement_of_all(torch, claims);
    refuse_flags(flags, torch, engine);
    return place_torch_rank(torch, environment);
  }
  const bool mpich_counts = mpich.several() && (!step || is_inside(mpich, *step));
  if (openmpi.several() || mpich_counts) {
    const auto& claim = openmpi.several() ? openmpi : mpich;
    require_agreement_of_all(claim, claims);
    refuse_flags(flags, claim, claim.engine);
    return place_mpi_rank(claim, environment);
  }
  if (step) {
    require_agreement_of_all(step->claim, claims);
    if (!step->one_task_per_node()) refuse_flags(flags, step->claim, Engine::kSlurm);
    return place_slurm_task(*step, flags, environment);
  }
  return std::nullopt;
}

// Returns one node, as Kubernetes or the flags say it, or else nobody's.
Placement place_by_options(const Claims& claims, const LaunchFlags& flags, const Environment& environment) {
  const auto& torch = claims.torch;
  if (torch.rank && !torch.size)
    throw UserError(torch.rank->text() + ", but WORLD_SIZE is not set: of how many? Unset the one or set the other");
  if (torch.rank) {
    const auto pod = kubeflow_flags(torch, environment);
    if (pod.nnodes && pod.node_rank) require_same_nodes(flags, *pod.nnodes, *pod.node_rank);
    auto options = flags.over(pod);
    options.nnodes = pod.nnodes;
    return place_node(Engine::kKubeflow, options);
  }
  const LaunchFlags address{.master_addr = environment.find("MASTER_ADDR"),
                            .master_port = environment.find("MASTER_PORT")};
  const auto engine = flags.first() ? Engine::kFlags : Engine::kPet;
  return place_node(engine, flags.over(pet_flags(environment)).over(address));
}

// Reads the job's name, end and restarts from Slurm, whoever starts processes within it.
void read_slurm_job(Placement& placement, const Environment& environment) {
  const auto job = find_slurm_job(environment);
  if (!job) return;
  if (placement.job_id.empty()) {
    placement.job_id = job->name;
    for (const auto& setting : job->from)
      placement.count(setting, setting.name == "SLURM_ARRAY_TASK_ID" ? "and of its task" : "the name of the job");
  }
  if (const auto end = environment.find("SLURM_JOB_END_TIME")) {
    placement.ends_at = end->number(0);
    placement.count(*end, "when Slurm ends the job, in seconds since 1970");
  }
  const auto restarts = environment.find("SLURM_RESTART_COUNT");
  if (!restarts || placement.engine_restarts) return;
  placement.restart_count = restarts->number(0);
  placement.count(*restarts, "how often Slurm has restarted the job");
}

}  // namespace

void Placement::count(const Setting& setting, const std::string& meaning) {
  evidence.push_back({setting.name, setting.value, meaning, true});
}

void Placement::ignore(const Setting& setting, const std::string& reason) {
  evidence.push_back({setting.name, setting.value, reason, false});
}

Placement find_placement(const LaunchFlags& flags, const Environment& environment) {
  const auto claims = find_claims(environment);
  auto placement = place_by_engine(claims, flags, environment);
  if (!placement) placement = place_by_options(claims, flags, environment);
  read_slurm_job(*placement, environment);
  if (const auto earlier = environment.find("DDPRUN_EARLIER_RUNS")) {
    placement->earlier_runs = earlier->number(0);
    placement->count(*earlier, "how many runs the same script has started here before");
  }
  note_ignored(*placement, environment);
  return *placement;
}

namespace {

void require_equal(const std::optional<Setting>& one, const std::optional<Setting>& other, const std::string& what) {
  if (!one || !other || one->number(0) == other->number(0)) return;
  contradict(*one, *other, "both say " + what + ". One of them is left over from something else: unset it");
}

const Setting& need(const std::optional<Setting>& setting, const Setting& beside, const std::string& name) {
  if (!setting) throw UserError(beside.text() + ", but " + name + " is not set; an engine sets both");
  return *setting;
}

}  // namespace

Claim torch_claim(const Environment& environment) {
  return {.engine = Engine::kEnv,
          .rank = environment.find("RANK"),
          .size = environment.find("WORLD_SIZE"),
          .local_rank = environment.find("LOCAL_RANK"),
          .local_size = environment.find("LOCAL_WORLD_SIZE"),
          .local_rank_name = "LOCAL_RANK",
          .local_size_name = "LOCAL_WORLD_SIZE"};
}

Claim openmpi_claim(const Environment& environment) {
  Claim claim{.engine = Engine::kOpenMpi,
              .rank = environment.find("OMPI_COMM_WORLD_RANK"),
              .size = environment.find("OMPI_COMM_WORLD_SIZE"),
              .local_rank = environment.find("OMPI_COMM_WORLD_LOCAL_RANK"),
              .local_size = environment.find("OMPI_COMM_WORLD_LOCAL_SIZE"),
              .local_rank_name = "OMPI_COMM_WORLD_LOCAL_RANK",
              .local_size_name = "OMPI_COMM_WORLD_LOCAL_SIZE"};
  if (claim.rank) need(claim.size, *claim.rank, "OMPI_COMM_WORLD_SIZE");
  return claim;
}

Claim mpich_claim(const Environment& environment) {
  Claim claim{.engine = Engine::kMpich,
              .rank = environment.find("PMI_RANK"),
              .size = environment.find("PMI_SIZE"),
              .local_rank = environment.find({"MPI_LOCALRANKID", "PMI_LOCAL_RANK"}),
              .local_size = environment.find({"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"}),
              .local_rank_name = "MPI_LOCALRANKID",
              .local_size_name = "MPI_LOCALNRANKS"};
  if (claim.rank) need(claim.size, *claim.rank, "PMI_SIZE");
  return claim;
}

void require_agreement(const Claim& claim, const Claim& other) {
  require_equal(claim.size, other.size, "how many processes there are");
  require_equal(claim.rank, other.rank, "which of the processes this is");
  require_equal(claim.local_rank, other.local_rank, "which process of its node this is");
  require_equal(claim.local_size, other.local_size, "how many processes this node has");
}

Placement place_rank(const Claim& claim) {
  const auto& rank = *claim.rank;
  const auto& size = *claim.size;
  const auto& local_rank = need(claim.local_rank, rank, claim.local_rank_name);
  const auto& local_size = need(claim.local_size, rank, claim.local_size_name);
  require_below(rank, size);
  require_below(local_rank, local_size);
  if (local_size.number(1) > size.number(1)) contradict(local_size, size, "a node cannot have more ranks than the job");
  Placement placement{.engine = claim.engine,
                      .role = Role::kRank,
                      .rank = rank.number(0),
                      .world_size = size.number(1),
                      .local_rank = local_rank.number(0),
                      .local_world_size = local_size.number(1)};
  placement.count(rank, "the rank of this process");
  placement.count(size, "the number of ranks");
  placement.count(local_rank, "its rank on this node");
  placement.count(local_size, "the number of ranks on this node");
  return placement;
}

}  // namespace ddprun
