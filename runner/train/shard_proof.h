// SPDX-License-Identifier: MIT
// Proves at each epoch's end that the samples of all ranks together were the epoch: each once, none left out.
#pragma once

#include "config/experiment.h"
#include "data/batch_source.h"
#include "dist/communicator.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

class ShardProof {
 public:
  // The training begins after `first_step` steps, within an epoch perhaps.
  ShardProof(Communicator& communicator, const StepPlan& plan, int64_t samples, int64_t first_step);

  void add(const TrainBatch& item);

  // At the end of an epoch (counted from 1): prints each rank's number of samples and their SHA-256 on rank 0, and throws
  // std::logic_error where they are not the epoch. Collective.
  void check(int64_t epoch, const Experiment& experiment);

 private:
  Communicator& communicator_;
  StepPlan plan_;
  int64_t samples_, first_step_;
  std::vector<int64_t> seen_;  // this rank's, in order
};

}  // namespace ddprun
