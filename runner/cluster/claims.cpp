// SPDX-License-Identifier: MIT
// What an engine says about this process, and a rank's place by it.
#include "cluster/placement.h"

#include <ddprun/error.h>

namespace ddprun {
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
