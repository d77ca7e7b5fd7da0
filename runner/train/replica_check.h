// SPDX-License-Identifier: MIT
// Compares the ranks' copies of what all should hold alike: weights, the optimizer's state, averages. They differ where
// a plugin's results depend on the rank, or where a machine computes or stores wrongly; training would go on with as
// many networks as there are ranks, and save rank 0's. Buffers are each rank's own (comm/shared_buffers.h). Of a shared
// optimizer's state and averages there is only one copy: then the weights are compared.
#pragma once

#include "train/base_weights.h"
#include "train/context.h"
#include "train/ema.h"
#include "train/optimizer_share.h"

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
  // All outlive it. `base` is told of the digest of what it has, for which nothing is read twice.
  ReplicaCheck(const Context& context, const Ema& ema, const OptimizerShare& share, BaseWeights& base)
      : context_(context), ema_(ema), share_(share), base_(base) {}

  // Compares the ranks after this step, and returns the digest of weights, the optimizer's state and averages, which
  // does not depend on who has them. Throws ReplicasDiffer. Collective.
  uint64_t check(int64_t step);

  struct Named {
    std::vector<std::string> names;  // "conv1.weight", "conv1.weight/momentum of the optimizer"
    std::vector<at::Tensor> tensors;

    void add(std::string name, const at::Tensor& tensor);
  };
  bool is_shared() const { return share_.is_shared(); }  // whether state() is
  Named weights() const;
  Named state() const;  // of the optimizer, with averages; this rank's share where they are shared

 private:
  uint64_t digest_of_replicas(const Named& replicas);
  [[noreturn]] void refuse(int64_t step, const Named& replicas) const;

  const Context& context_;
  const Ema& ema_;
  const OptimizerShare& share_;
  BaseWeights& base_;
  int64_t checked_ = -1;  // step; -1: none
};

}  // namespace ddprun
