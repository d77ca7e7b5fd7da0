// SPDX-License-Identifier: MIT
#include "brittle.h"

#include <ddprun/model.h>

#include <torch/nn/modules/linear.h>

namespace {

class BrittleModel final : public ddprun::Model {
 public:
  explicit BrittleModel(ddprun::Options& /*options*/) {}

  void prepare(const ddprun::DataSpec& data) override {
    brittle::reach("model.prepare");
    output_ = register_module("output", torch::nn::Linear(data.sample_shape.at(0), data.classes));
  }

  void initialize(const ddprun::Dataset& /*data*/) override { brittle::reach("model.initialize"); }

  at::Tensor forward(const at::Tensor& input) override {
    brittle::reach("model.forward");
    return output_(input);
  }

  ddprun::Step step(const ddprun::Batch& batch, const ddprun::Objective& objective) override {
    brittle::reach("model.step");
    return Model::step(batch, objective);
  }

 private:
  torch::nn::Linear output_{nullptr};
};

}  // namespace

DDPRUN_MODEL(BrittleModel, "brittle_model", "a linear classifier whose hooks fail on demand")
