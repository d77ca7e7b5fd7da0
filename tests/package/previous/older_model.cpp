// SPDX-License-Identifier: MIT
// A model as somebody wrote it for an older SDK. It tells when its code begins to run, which may be while it is loaded.
#include <ddprun/model.h>

#include <torch/nn/modules/linear.h>

#include <cstdlib>
#include <fstream>

namespace {

const bool kLoaded = [] {
  std::ofstream(std::getenv("OLDER_PLUGIN_RAN"), std::ios::app) << "older_model\n";
  return true;
}();

class OlderModel final : public ddprun::Model {
 public:
  explicit OlderModel(ddprun::Options& options) { (void)options; }

  void prepare(const ddprun::DataSpec& data) override {
    output_ = register_module("output", torch::nn::Linear(28 * 28, data.classes));
  }

  at::Tensor forward(const at::Tensor& input) override { return output_(input.flatten(1)); }

  ddprun::Step step(const ddprun::Batch& batch, const ddprun::Objective& objective) override {
    auto step = ddprun::Model::step(batch, objective);
    step.metrics.push_back({.name = "older", .sum = step.loss.detach() * batch.size(), .count = batch.size()});
    return step;
  }

 private:
  torch::nn::Linear output_{nullptr};
};

}  // namespace

DDPRUN_MODEL(OlderModel, "older_model", "a model of an older SDK")
