// SPDX-License-Identifier: MIT
#include "brittle.h"

#include <ddprun/objective.h>

#include <ATen/ATen.h>

namespace {

class BrittleObjective final : public ddprun::Objective {
 public:
  explicit BrittleObjective(ddprun::Options& /*options*/) {}

  void prepare(const ddprun::DataSpec& /*data*/) override { brittle::reach("objective.prepare"); }

  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    brittle::reach("objective.loss");
    return at::cross_entropy_loss(prediction, target);
  }

  std::vector<ddprun::MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const override {
    brittle::reach("objective.metrics");
    return {{"accuracy", prediction.argmax(1).eq(target).sum().to(at::kDouble), target.size(0)}};
  }

  at::Tensor scores(const at::Tensor& prediction) const override {
    brittle::reach("objective.scores");
    return prediction.softmax(1);
  }
};

}  // namespace

DDPRUN_OBJECTIVE(BrittleObjective, "brittle_objective", "the cross-entropy, with hooks that fail on demand")
