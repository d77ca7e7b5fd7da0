// SPDX-License-Identifier: MIT
// Looks into one training step while it is computed. It changes nothing and, unless its feature looks at that step
// (Feature::look()), launches nothing on a GPU either: the step may be one that becomes a CUDA graph.
#pragma once

#include "step/gradients.h"
#include "step/operator_listener.h"

#include <ddprun/dataset.h>
#include <ddprun/model.h>

#include <cstdint>
#include <vector>

namespace ddprun {

class StepWatcher {
 public:
  virtual ~StepWatcher() = default;

  // Returns whether it wants all gradients on each rank, which with trainer.shard_optimizer has only its own otherwise;
  // the same on all ranks, and only of a step that is looked at.
  virtual bool needs_gradients() const { return false; }

  // Returns who hears the operators of what is computed next, so many samples at once; null: not this one. Of several
  // watchers the first that returns one hears them. Not asked in a step that becomes a CUDA graph.
  virtual OperatorListener* listener(int64_t samples);

  // Called around forward and backward of what is computed at once, a micro-batch or a shard; `shard` is -1 if it is
  // none. Not for samples that a rank has borrowed.
  virtual void begin_part(const Batch& /*batch*/, int64_t /*shard*/) {}
  virtual void begin_backward(const Step& /*forward*/) {}
  virtual void end_part() {}

  // Shows the gradients: averaged over the ranks, unscaled, not yet clipped; undefined of a parameter that backward has
  // not reached. Also of a step that is skipped then because they are not finite. A step that is replayed from a CUDA
  // graph shows none: who needs those of a step looks at it.
  virtual void gradients(const std::vector<NamedParameter>& /*parameters*/) {}
};

inline OperatorListener* StepWatcher::listener(int64_t /*samples*/) { return nullptr; }

}  // namespace ddprun
