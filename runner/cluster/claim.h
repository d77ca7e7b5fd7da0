// SPDX-License-Identifier: MIT
// What one engine says about this process: which rank of how many it is.
#pragma once

#include "cluster/environment.h"
#include "cluster/placement.h"

#include <optional>
#include <string>

namespace ddprun {

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
