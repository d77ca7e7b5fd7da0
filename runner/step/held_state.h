// SPDX-License-Identifier: MIT
// What a rank holds of the network under training, by names that people read. Which ranks differ in it is said here
// too.
#pragma once

#include "step/context.h"
#include "step/ema.h"

#include <ATen/core/Tensor.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun {

struct NamedTensors {
  std::vector<std::string> names;  // "conv1.weight", "conv1.weight/momentum of the optimizer"
  std::vector<at::Tensor> tensors;

  void add(std::string name, const at::Tensor& tensor);
};

NamedTensors held_weights(const Model& model);
// Returns the optimizer's state, with averages; this rank's share where they are shared.
NamedTensors held_state(const Optimizer& optimizer, const Ema& ema);

// Says which ranks hold other networks than the rest, where they run, and in what. Thrown by all ranks alike.
class ReplicasDiffer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace ddprun
