// SPDX-License-Identifier: MIT
// Keeps the loss of each step, which it reads on the host.
#include <ddprun/callback.h>

#include <ATen/ops/tensor.h>

namespace {

class LossReader final : public ddprun::Callback {
 public:
  explicit LossReader(ddprun::Options& /*options*/) {}

  ddprun::Requests after_step(const ddprun::StepDone& step) override {
    losses_.push_back(step.loss.item<float>());
    return {};
  }

  std::map<std::string, at::Tensor> state() const override { return {{"losses", at::tensor(losses_)}}; }

 private:
  std::vector<float> losses_;
};

}  // namespace

DDPRUN_CALLBACK(LossReader, "loss_reader", "reads the loss of each step")
