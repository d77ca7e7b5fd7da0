// SPDX-License-Identifier: MIT
// Places ranks that have torch's variables: torchrun's, Ray's, and those that a script sets.
#include "cluster/placement.h"

#include <ddprun/error.h>

namespace ddprun {
namespace {

void place_rendezvous(Placement& placement, const Claim& claim, const Environment& environment) {
  const auto address = environment.find("MASTER_ADDR"), port = environment.find("MASTER_PORT");
  if (!address || !port) {
    throw UserError(claim.rank->text() + " of " + claim.size->text() + ", but " +
                    (address ? "MASTER_PORT" : "MASTER_ADDR") +
                    " is not set: where do the ranks meet? Set it to the same on all of them");
  }
  placement.host = parse_host(*address);
  placement.port = parse_port(*port);
  placement.count(*address, "the host where the ranks meet");
  placement.count(*port, "the port there");
  const auto store = environment.find("TORCHELASTIC_USE_AGENT_STORE");
  if (!store) return;
  placement.agent_store = store->value == "True";
  placement.count(*store, placement.agent_store ? "a store of torchrun or torch.distributed listens there"
                                                : "rank 0 serves the store there");
}

// Reads what torchrun says about the job, other than the ranks.
void read_torchrun(Placement& placement, const Environment& environment) {
  const auto run = *environment.find("TORCHELASTIC_RUN_ID");
  placement.engine_restarts = true;
  if (run.value == "none") {
    placement.ignore(run, "torchrun's default is not a name");
  } else {
    placement.job_id = run.value;
    placement.count(run, "the name of the job");
  }
  if (const auto count = environment.find("TORCHELASTIC_RESTART_COUNT")) {
    placement.restart_count = count->number(0);
    placement.count(*count, "how often torchrun has restarted the workers");
  }
  if (const auto most = environment.find("TORCHELASTIC_MAX_RESTARTS"))
    placement.count(*most, "how often torchrun will; ddprun does not");
  if (const auto file = environment.find("TORCHELASTIC_ERROR_FILE")) {
    placement.error_file = file->value;
    placement.count(*file, "where torchrun reads why a worker failed");
  }
}

}  // namespace

Engine torch_engine(const Environment& environment) {
  if (environment.has("TORCHELASTIC_RUN_ID")) return Engine::kTorchrun;
  return environment.find({"RAY_RAYLET_PID", "RAY_JOB_ID", "ACCELERATE_TORCH_DEVICE"}) ? Engine::kRay : Engine::kEnv;
}

Placement place_torch_rank(Claim claim, const Environment& environment) {
  const auto address = environment.find("MASTER_ADDR");
  const bool one_machine = claim.size->number(1) == 1 || (address && is_loopback(address->value));
  if (!claim.local_size && one_machine) claim.local_size = claim.size;
  claim.engine = torch_engine(environment);
  auto placement = place_rank(claim);
  if (claim.several()) {
    place_rendezvous(placement, claim, environment);
  } else {
    placement.engine = Engine::kNobody;
    placement.role = Role::kNode;
    placement.node_rank = 0;
    placement.workers = "1";
  }
  if (claim.engine == Engine::kTorchrun) read_torchrun(placement, environment);
  return placement;
}

}  // namespace ddprun
