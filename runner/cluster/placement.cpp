// SPDX-License-Identifier: MIT
#include "cluster/placement.h"

#include "cluster/slurm.h"

#include <ddprun/error.h>

namespace ddprun {
namespace {

constexpr std::optional<Setting> LaunchFlags::*kAll[] = {
    &LaunchFlags::nnodes,       &LaunchFlags::nproc_per_node, &LaunchFlags::node_rank, &LaunchFlags::rdzv_endpoint,
    &LaunchFlags::master_addr,  &LaunchFlags::master_port,    &LaunchFlags::rdzv_id,   &LaunchFlags::rdzv_backend,
    &LaunchFlags::max_restarts, &LaunchFlags::standalone,
};

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

// Reads the job's name, end and restarts from Slurm, no matter what starts processes within it.
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

Placement place(const LaunchFlags& flags, const Environment& environment) {
  const auto claims = find_claims(environment);
  auto placement = place_by_engine(claims, flags, environment);
  return placement ? *placement : place_by_options(claims, flags, environment);
}

}  // namespace

void Placement::count(const Setting& setting, const std::string& meaning) {
  evidence.push_back({setting.name, setting.value, meaning, true});
}

void Placement::ignore(const Setting& setting, const std::string& reason) {
  evidence.push_back({setting.name, setting.value, reason, false});
}

Placement find_placement(const LaunchFlags& flags, const Environment& environment, const LaunchFlags& otherwise) {
  auto placement = place(flags, environment);
  if (placement.engine == Engine::kNobody) placement = place(flags.over(otherwise), environment);
  read_slurm_job(placement, environment);
  if (const auto earlier = environment.find("DDPRUN_EARLIER_RUNS")) {
    placement.earlier_runs = earlier->number(0);
    placement.count(*earlier, "how many runs the same script has started here before");
  }
  note_ignored(placement, environment);
  return placement;
}

std::optional<Setting> LaunchFlags::first() const {
  for (const auto flag : kAll) {
    if (this->*flag) return this->*flag;
  }
  return std::nullopt;
}

LaunchFlags LaunchFlags::over(const LaunchFlags& others) const {
  LaunchFlags both = *this;
  for (const auto flag : kAll) {
    if (!(both.*flag)) both.*flag = others.*flag;
  }
  if (rdzv_endpoint || master_addr) {
    both.rdzv_endpoint = rdzv_endpoint;
    both.master_addr = master_addr;
    both.master_port = master_port;
  }
  return both;
}

}  // namespace ddprun
