// SPDX-License-Identifier: MIT
// Finds machines that compute other bits than others, with trainer.shards. Each rank computes one step of the model on
// made weights and the first training samples, which gives one digest wherever the processor or GPU, its instruction
// set, the number of threads and the libraries are alike.
#pragma once

#include "train/feature.h"

#include <cstdint>
#include <string>

namespace ddprun {

class SameMachines final : public Feature {
 public:
  // Compares the ranks, and them with the attempt before; notes what rank 0 found. Throws UserError that names each
  // rank with other bits and its machine; warns if all are alike, but other than before. Leaves the model as it was.
  // Collective.
  void before_first_step(Loop& loop) override;

  void save(const Loop& loop, FeatureStates& states) override;
  void restore(Loop& loop, const FeatureStates& states) override;

 private:
  uint64_t digest_ = 0;
  std::string machine_;  // that computed it, for people; empty: it was not computed
};

}  // namespace ddprun
