// SPDX-License-Identifier: MIT
#include "brittle.h"

#include <ddprun/callback.h>

#include <ATen/ATen.h>

namespace {

class BrittleCallback final : public ddprun::Callback {
 public:
  explicit BrittleCallback(ddprun::Options& /*options*/) {}

  void start(const ddprun::Training& training) override {
    brittle::reach("callback.start");
    model_ = training.model;
  }

  ddprun::Requests after_step(const ddprun::StepDone& /*step*/) override {
    brittle::reach("callback.after_step");
    for (const auto& weight : model_->named_parameters()) {
      auto& mean = means_[weight.key()];
      mean = mean.defined() ? mean * 0.9 + weight.value().detach() * 0.1 : weight.value().detach().clone();
    }
    return {};
  }

  ddprun::Requests after_evaluation(const ddprun::EvaluationDone& /*evaluation*/) override {
    brittle::reach("callback.after_evaluation");
    return {};
  }

  void finish() override {
    brittle::reach("callback.finish");
    for (auto& weight : model_->named_parameters()) weight.value().detach().copy_(means_.at(weight.key()));
  }

  std::map<std::string, at::Tensor> state() const override {
    brittle::reach("callback.state");
    return means_;
  }

  void load_state(const std::map<std::string, at::Tensor>& state) override {
    brittle::reach("callback.load_state");
    means_ = state;
  }

 private:
  std::shared_ptr<ddprun::Model> model_;
  std::map<std::string, at::Tensor> means_;
};

}  // namespace

DDPRUN_CALLBACK(BrittleCallback, "brittle_callback",
                "a mean of the weights over the steps, with hooks that fail on demand")
