// SPDX-License-Identifier: MIT
// Compares the ranks' copies of what all should hold alike: weights, the optimizer's state, averages. They differ where
// a plugin's results depend on the rank, or where a machine computes or stores wrongly; training would go on with as
// many networks as there are ranks, and save rank 0's. Buffers are each rank's own (comm/shared_buffers.h).
#pragma once

#include "train/context.h"
#include "train/ema.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun {

// Says which ranks differ, where they run, and in what. Thrown by all ranks alike.
class ReplicasDiffer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ReplicaCheck {
 public:
  // Both outlive it.
  ReplicaCheck(const Context& context, const Ema& ema) : context_(context), ema_(ema) {}

  // Compares the ranks after this step, and returns the digest that they have. Throws ReplicasDiffer. Collective.
  uint64_t check(int64_t step);

  struct Named {
    std::vector<std::string> names;  // "conv1.weight", "conv1.weight/momentum of the optimizer"
    std::vector<at::Tensor> tensors;
  };
  Named replicas() const;  // what is compared

 private:
  [[noreturn]] void refuse(int64_t step, const Named& replicas) const;

  const Context& context_;
  const Ema& ema_;
  int64_t checked_ = -1;  // step; -1: none
};

}  // namespace ddprun
