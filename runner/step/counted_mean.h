// SPDX-License-Identifier: MIT
// Makes the gradient of a step the mean over the samples, symbols or pixels that count in the global batch, where the
// model says how many those are (Step::counted) and only the device knows it: the same gradient however unevenly they
// are spread over ranks and micro-batches.
//
// The mean loss of each micro-batch is weighted by what counts in it, divided by what would count in all if the ranks'
// first micro-batches were typical. The gradients are corrected at the end by what did. With one micro-batch that is
// known before backward, and nothing is corrected: if all parts count alike, their weights are 1, as without counting.
// With shards the global batch's first one is the typical one, whatever the ranks.
//
// Nothing here waits for the device. Used from the training thread, by all ranks alike.
#pragma once

#include "comm/communicator.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddprun {

// Throws PluginMistake: some of the model's steps have Step::counted, and others have not.
[[noreturn]] void only_some_count();

class CountedMean {
 public:
  // How a step is cut.
  struct Cut {
    int64_t micro_batches = 1;  // of each rank
    int64_t shards = 0;         // with samples, of all ranks, instead of micro-batches; 0: none
    bool alone = false;         // without the other ranks
  };

  // Starts a step.
  CountedMean(Communicator& communicator, const Cut& cut) : communicator_(communicator), cut_(cut) {}

  // Returns the weight of the next micro-batch's mean loss in the mean over ranks, or of the next shard's in that of
  // the global batch, a float32 scalar on the device;
  // undefined if that is 1 in any case, as for the only micro-batch of the only rank. `counted` is the model's; it does
  // not count if the batch is `borrowed`. Collective, in the step's first one.
  at::Tensor weight(const at::Tensor& counted, bool borrowed);

  // Corrects the gradients after their exchange, in place. Does nothing if weight() was not called. Collective.
  void correct(const std::vector<at::Tensor>& gradients);

 private:
  void sum(at::Tensor& numbers) const;
  bool is_whole() const;

  Communicator& communicator_;
  Cut cut_;
  at::Tensor total_;     // what has counted on this rank, float64; undefined before the first weight()
  at::Tensor expected_;  // what would count in the global batch, float64, at least 1
};

}  // namespace ddprun
