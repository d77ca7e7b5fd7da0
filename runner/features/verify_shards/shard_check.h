// SPDX-License-Identifier: MIT
// Verifies that the ranks train on the same samples, and at each epoch's end that theirs together were the epoch: each
// exactly once.
#pragma once

#include "comm/communicator.h"
#include "config/experiment.h"
#include "data/loader.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace ddprun {

// Throws UserError on every rank if a rank has another input, target or extra than rank 0 for some samples of each
// split. The error names the rank and the sample. Samples are compared by the SHA-256 of their tensors, as get()
// returns them, before augment(). Collective.
void require_same_samples(const Dataset& dataset, Communicator& communicator);

class ShardCheck {
 public:
  // Training starts after `first_step` steps, possibly within an epoch.
  ShardCheck(Communicator& communicator, std::shared_ptr<const Dataset> dataset, const StepPlan& plan,
             int64_t first_step);

  void add(const TrainBatch& item);

  // Checks the end of an epoch (counted from 1): prints each rank's number of samples and the SHA-256 of their indices
  // on rank 0, and throws std::logic_error unless they are the epoch. Compares other samples in each epoch, as
  // require_same_samples(). Collective.
  void check(int64_t epoch, const Experiment& experiment);

 private:
  Communicator& communicator_;
  std::shared_ptr<const Dataset> dataset_;
  StepPlan plan_;
  int64_t samples_, first_step_;
  std::vector<int64_t> seen_;  // this rank's samples, in order
  int64_t steps_ = 0;          // in the epoch, in this attempt
};

}  // namespace ddprun
