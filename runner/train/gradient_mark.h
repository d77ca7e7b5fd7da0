// SPDX-License-Identifier: MIT
// Takes a loss that is NaN or infinite to all ranks without an exchange of its own: it puts NaN into one gradient
// before the gradients are averaged. A finite loss adds 0 there.
//
// Such a loss does not always have such gradients: those of clamp are 0 where its input is NaN.
#pragma once

#include <ddprun/optimizer.h>

#include <memory>
#include <vector>

namespace ddprun {

class GradientMark {
 public:
  // One that is not enabled does nothing.
  GradientMark(const std::vector<NamedParameter>& parameters, bool enabled);

  // Before the backward pass of this loss. Whichever gradient comes first in it carries the mark.
  void set(const at::Tensor& loss);

 private:
  struct Mark;  // shared with the parameters' hooks, which autograd may call from a thread of its own
  std::shared_ptr<Mark> mark_;
};

}  // namespace ddprun
