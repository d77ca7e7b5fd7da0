// SPDX-License-Identifier: MIT
// A model that all checks of <ddprun/testing.h> pass.
#pragma once

#include <ddprun/model.h>
#include <ddprun/testing/model.h>

#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <memory>

namespace ddprun::check {

class Net : public Model {
 public:
  void prepare(const DataSpec& data) override {
    hidden_ = register_module("hidden", torch::nn::Linear(data.sample_shape.at(0), 8));
    output_ = register_module("output", torch::nn::Linear(8, data.classes > 0 ? data.classes : 2));
  }

  at::Tensor forward(const at::Tensor& input) override { return output_(torch::tanh(hidden_(input))); }

 protected:
  torch::nn::Linear hidden_{nullptr}, output_{nullptr};
};

inline const DataSpec kData{.sample_shape = {6}, .classes = 3};

template <class Kind>
ModelTest test_of(const DataSpec& data = kData) {
  return {.make = [] { return std::make_shared<Kind>(); }, .data = data};
}

}  // namespace ddprun::check
