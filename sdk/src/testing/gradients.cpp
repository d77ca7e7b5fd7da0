// SPDX-License-Identifier: MIT
#include "model_scene.h"

#include <ddprun/model.h>
#include <ddprun/parameters.h>
#include <ddprun/random.h>
#include <ddprun/testing/gradients.h>

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ddprun::check {
namespace {

constexpr uint64_t kStream = 0x6772616469656E74;  // "gradient": apart from every other use of the seed

// The loss of the batch as a function of the weights alone: noise and running statistics are the same each time.
class Loss {
 public:
  Loss(Model& model, const LossOfBatch& loss_of, const Batch& batch, uint64_t seed)
      : model_(model), loss_of_(loss_of), batch_(batch), seed_(seed) {
    for (const auto& buffer : model.buffers()) kept_.push_back(buffer.clone());
  }

  ~Loss() { put_back(); }
  Loss(const Loss&) = delete;
  Loss& operator=(const Loss&) = delete;

  // Restores the buffers only afterwards: backward may still need them as they are.
  at::Tensor operator()() {
    put_back();
    torch::manual_seed(seed_);
    return loss_of_(batch_);
  }

 private:
  void put_back() {
    const torch::NoGradGuard no_gradients;
    auto buffers = model_.buffers();
    for (size_t i = 0; i < kept_.size(); ++i) buffers[i].copy_(kept_[i]);
  }

  Model& model_;
  const LossOfBatch& loss_of_;
  const Batch& batch_;
  uint64_t seed_;
  std::vector<at::Tensor> kept_;
};

double slope(Loss& loss, double& number, double step) {
  const torch::NoGradGuard no_gradients;
  const double kept = number;
  number = kept + step;
  const double above = loss().item<double>();
  number = kept - step;
  const double below = loss().item<double>();
  number = kept;
  return (above - below) / (2 * step);
}

double relative_error(double one, double other) {
  constexpr double kNoise = 1e-6;  // of the differences, for slopes near zero
  return std::abs(one - other) / std::max({std::abs(one), std::abs(other), kNoise});
}

void check_number(double& number, double expected, Loss& loss, GradientFinding& finding) {
  double error = std::numeric_limits<double>::infinity(), nearest = 0;
  for (const double step : {1e-5, 1e-7}) {
    const double difference = slope(loss, number, step);
    const double of_this = relative_error(difference, expected);
    if (of_this < error || finding.checked == 0) nearest = difference;
    error = std::min(error, of_this);
  }
  ++finding.checked;
  if (error < finding.largest_error) return;
  finding.largest_error = error;
  finding.by_backward = expected;
  finding.by_difference = nearest;
}

GradientFinding check_parameter(const NamedParameter& parameter, Loss& loss, int64_t numbers, RandomStream& draws) {
  GradientFinding finding{.parameter = parameter.name, .has_gradient = parameter.value.grad().defined()};
  if (!finding.has_gradient) return finding;
  const auto gradient = parameter.value.grad().contiguous();
  const auto values = parameter.value.detach();
  const int64_t all = values.numel();
  for (int64_t i = 0; i < std::min(numbers, all); ++i) {
    const auto at = all <= numbers ? i : static_cast<int64_t>(draws.below(static_cast<uint64_t>(all)));
    check_number(values.data_ptr<double>()[at], gradient.const_data_ptr<double>()[at], loss, finding);
  }
  return finding;
}

}  // namespace

std::vector<GradientFinding> compare_gradients(Model& model, const LossOfBatch& loss_of, Batch batch, int64_t numbers,
                                               uint64_t seed) {
  cast_floating_point(model, at::kDouble);
  model.train();
  batch.replace_tensors(
      [](const at::Tensor& tensor) { return tensor.is_floating_point() ? tensor.to(at::kDouble) : tensor; });
  Loss loss(model, loss_of, batch, seed);
  model.zero_grad();
  loss().backward();
  RandomStream draws(seed, kStream);
  std::vector<GradientFinding> findings;
  for (const auto& parameter : trainable_parameters(model))
    findings.push_back(check_parameter(parameter, loss, numbers, draws));
  return findings;
}

}  // namespace ddprun::check
