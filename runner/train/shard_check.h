// SPDX-License-Identifier: MIT
// Proves that the ranks train on the same data, and at each epoch's end that the samples of all ranks together were the
// epoch: each once, none left out.
#pragma once

#include "comm/communicator.h"
#include "config/experiment.h"
#include "data/loader.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace ddprun {

// Throws UserError on every rank where one's dataset has other sizes than rank 0's, or, with `samples`, another input,
// target or extra for some of each split's. The rank and the sample are named. They are compared by the SHA-256 of
// their tensors, as get() gives them, before augment(). Collective.
void require_same_data(const Dataset& dataset, bool samples, Communicator& communicator);

class ShardCheck {
 public:
  // The training begins after `first_step` steps, within an epoch perhaps.
  ShardCheck(Communicator& communicator, std::shared_ptr<const Dataset> dataset, const StepPlan& plan,
             int64_t first_step);

  void add(const TrainBatch& item);

  // At the end of an epoch (counted from 1): prints each rank's number of samples and the SHA-256 of their numbers on
  // rank 0, and throws std::logic_error where they are not the epoch. Compares other samples in each epoch, as
  // require_same_data(). Collective.
  void check(int64_t epoch, const Experiment& experiment);

 private:
  Communicator& communicator_;
  std::shared_ptr<const Dataset> dataset_;
  StepPlan plan_;
  int64_t samples_, first_step_;
  std::vector<int64_t> seen_;  // this rank's, in order
  int64_t steps_ = 0;          // of the epoch, in this attempt
};

}  // namespace ddprun
