// SPDX-License-Identifier: MIT
// What an optimizer promises. The parameters are of several shapes and of two types; one never gets a gradient, one
// only from the fifth step on. The gradients are given: there is no model.
#pragma once

#include <ddprun/optimizer.h>
#include <ddprun/testing/plugin.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::check {

// An optimizer, and how long it is looked at.
struct OptimizerTest {
  Maker<Optimizer> make;
  int64_t steps = 20;
};

// One step of an optimizer of LibTorch on these parameters, which it makes first: see torch_optimizer().
using Reference = std::function<std::function<void()>(std::vector<at::Tensor> parameters)>;

// An optimizer of LibTorch as a reference.
//
//   #include <torch/optim/rmsprop.h>
//   check::torch_optimizer<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.01).alpha(0.9))
template <class TorchOptimizer, class TorchOptions>
Reference torch_optimizer(TorchOptions options) {
  return [options](std::vector<at::Tensor> parameters) -> std::function<void()> {
    const auto optimizer = std::make_shared<TorchOptimizer>(std::move(parameters), options);
    return [optimizer] { optimizer->step(); };
  };
}

// The parameters agree with the reference's after each step: within `tolerance` in float32, within 1e-12 in float64.
std::string same_as(const OptimizerTest& test, const Reference& reference, double tolerance = 2e-6);

// Steps make a bowl's value less, are nothing at a learning rate of 0 in groups(), and leave parameters without a
// gradient alone.
std::string steps(const OptimizerTest& test);

// step_unless(1) is as if it had not been, step_unless(0) is step().
std::string skips_overflow(const OptimizerTest& test);

// An optimizer that is given state() goes on bit for bit as the one it is of; the given tensors stay what they were;
// state that does not fit is refused with a UserError that names the entry, and changes nothing.
std::string state_round_trip(const OptimizerTest& test);

// All of the above but same_as(), each problem with the name of the function that found it.
std::vector<std::string> all(const OptimizerTest& test);

}  // namespace ddprun::check
