// SPDX-License-Identifier: MIT
// Compares the ranks' copies of what all should hold alike: weights, the optimizer's state, averages. They differ where
// a plugin's results depend on the rank, or where a machine computes or stores wrongly; training would continue with as
// many networks as there are ranks, and save rank 0's. Buffers are each rank's own (comm/shared_buffers.h). Of a shared
// optimizer's state and averages there is only one copy: then the weights are compared. The digest of all goes to
// <run>/digests.jsonl.
#pragma once

#include "runs/digest_log.h"
#include "step/context.h"
#include "step/held_state.h"
#include "train/feature.h"
#include "weights/base_weights.h"

#include <cstdint>

namespace ddprun {

class ReplicaCheck final : public Feature {
 public:
  explicit ReplicaCheck(const Context& context);  // which outlives it

  // Compares the ranks after this step. Throws ReplicasDiffer. Collective.
  void settled(Loop& loop) override;

 private:
  uint64_t check(const Loop& loop);
  static uint64_t digest_of_replicas(const NamedTensors& replicas, BaseWeights& base);
  [[noreturn]] void refuse(int64_t step, const NamedTensors& replicas) const;

  const Context& context_;
  DigestLog digests_;
  int64_t checked_ = -1;  // step; -1: none
};

}  // namespace ddprun
