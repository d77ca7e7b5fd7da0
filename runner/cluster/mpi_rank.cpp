// SPDX-License-Identifier: MIT
// Ranks that mpirun or mpiexec started: Open MPI, MPICH, Intel MPI.
#include "cluster/placement.h"

#include <ddprun/error.h>

namespace ddprun {
namespace {

std::string flag_for(const Claim& claim, const std::string& name, const std::string& value) {
  return claim.engine == Engine::kOpenMpi ? "mpirun -x " + name + "=" + value : "mpiexec -genv " + name + " " + value;
}

void place_host(Placement& placement, const Claim& claim, const Environment& environment) {
  const auto address = environment.find("MASTER_ADDR");
  if (placement.local_world_size == placement.world_size) {
    placement.host = "127.0.0.1";
    if (address) placement.ignore(*address, "all ranks are on this node and meet at 127.0.0.1");
    return;
  }
  if (!address) {
    throw UserError(
        claim.local_size->text() + " of " + claim.size->text() +
        " ranks are on this node, but MASTER_ADDR is not set: where do the nodes meet? Name rank 0's host: " +
        flag_for(claim, "MASTER_ADDR", "HOST"));
  }
  placement.host = parse_host(*address);
  placement.count(*address, "the host where the ranks meet");
}

// Derives the port from what mpirun gives to all processes of one job and to no others.
void place_port(Placement& placement, const Claim& claim, const Environment& environment) {
  if (const auto port = environment.find("MASTER_PORT")) {
    placement.port = parse_port(*port);
    placement.count(*port, "the port there");
    return;
  }
  const auto job = environment.find({"OMPI_MCA_orte_hnp_uri", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
  if (!job) {
    throw UserError(claim.rank->text() + " of " + claim.size->text() +
                    ", but nothing identifies the job, to derive a port from. Choose a free one: " +
                    flag_for(claim, "MASTER_PORT", "29500"));
  }
  placement.port = port_of_job(job->value);
  placement.count(*job, "the port, " + std::to_string(placement.port) + ", is derived from it");
}

}  // namespace

Placement place_mpi_rank(const Claim& claim, const Environment& environment) {
  auto placement = place_rank(claim);
  place_host(placement, claim, environment);
  place_port(placement, claim, environment);
  return placement;
}

}  // namespace ddprun
