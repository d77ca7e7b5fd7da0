// SPDX-License-Identifier: MIT
// What an optimizer promises. There is no model: the gradients are given. The parameters have several shapes and two
// types; one never gets a gradient, one only from the fifth step on.
#pragma once

#include <ddprun/optimizer.h>
#include <ddprun/testing/plugin.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::check {

struct OptimizerTest {
  Maker<Optimizer> make;
  int64_t steps = 20;
};

// Makes a LibTorch optimizer for these parameters and returns a function that does one step: see torch_optimizer().
using Reference = std::function<std::function<void()>(std::vector<at::Tensor> parameters)>;

// Makes a reference of a LibTorch optimizer.
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

// Steps change parameters that have a gradient, at the learning rate in groups(): nothing at 0. Others are left alone.
std::string steps(const OptimizerTest& test);

// step_unless(1) changes nothing, and step_unless(0) equals step().
std::string skips_overflow(const OptimizerTest& test);

// An optimizer that loads state(), a new one or one that has made steps on trial, continues bit for bit like its
// source; an entry of a parameter that there is not is refused with a UserError.
std::string state_round_trip(const OptimizerTest& test);

// The steps of a part of step_parts(), while no other parameter has a gradient and after a state of it alone was
// loaded, are bit for bit those of all parts. Nothing is promised by an optimizer without parts.
std::string step_parts(const OptimizerTest& test);

// Runs all of the above but same_as(); each problem carries the name of the function that found it.
std::vector<std::string> all(const OptimizerTest& test);

}  // namespace ddprun::check
