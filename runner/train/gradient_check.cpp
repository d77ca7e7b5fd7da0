// SPDX-License-Identifier: MIT
#include "train/gradient_check.h"

#include "dist/replicate.h"
#include "plugin_host/plugin_call.h"

#include <ddprun/random.h>

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

namespace ddprun {
namespace {

constexpr uint64_t kStream = 0x6772616469656E74;  // "gradient": apart from every other use of the seed

// The loss of the batch as a function of the weights alone: the same noise and the same running statistics each time.
class Loss {
 public:
  Loss(Model& model, const Objective& objective, const Batch& batch, uint64_t seed)
      : model_(model), objective_(objective), batch_(batch), seed_(seed) {
    for (const auto& buffer : model.buffers()) kept_.push_back(buffer.clone());
  }

  ~Loss() { put_back(); }
  Loss(const Loss&) = delete;
  Loss& operator=(const Loss&) = delete;

  // Afterwards backward may still need the buffers as they are.
  at::Tensor operator()() {
    put_back();
    torch::manual_seed(seed_);
    return in_plugin({"model", "step"}, [&] { return model_.step(batch_, objective_).loss; });
  }

 private:
  void put_back() {
    const torch::NoGradGuard no_gradients;
    auto buffers = model_.buffers();
    for (size_t i = 0; i < kept_.size(); ++i) buffers[i].copy_(kept_[i]);
  }

  Model& model_;
  const Objective& objective_;
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

GradientFinding check_parameter(const NamedParameter& parameter, Loss& loss, int64_t numbers, RandomStream& draws) {
  GradientFinding finding{.parameter = parameter.name, .has_gradient = parameter.value.grad().defined()};
  if (!finding.has_gradient) return finding;
  const auto gradient = parameter.value.grad().contiguous();
  const auto values = parameter.value.detach();
  const int64_t all = values.numel();
  for (int64_t i = 0; i < std::min(numbers, all); ++i) {
    const auto at = all <= numbers ? i : static_cast<int64_t>(draws.below(static_cast<uint64_t>(all)));
    auto& number = values.data_ptr<double>()[at];
    const double expected = gradient.const_data_ptr<double>()[at];
    double error = std::numeric_limits<double>::infinity();
    for (const double step : {1e-5, 1e-7}) error = std::min(error, relative_error(slope(loss, number, step), expected));
    finding.largest_error = std::max(finding.largest_error, error);
    ++finding.checked;
  }
  return finding;
}

}  // namespace

std::vector<GradientFinding> check_gradients(Model& model, const Objective& objective, Batch batch, int64_t numbers,
                                             uint64_t seed) {
  model.to(at::kDouble);
  model.train();
  batch.input = batch.input.to(at::kDouble);
  if (batch.target.is_floating_point()) batch.target = batch.target.to(at::kDouble);
  Loss loss(model, objective, batch, seed);
  model.zero_grad();
  loss().backward();
  RandomStream draws(seed, kStream);
  std::vector<GradientFinding> findings;
  for (const auto& parameter : trainable_parameters(model)) {
    findings.push_back(check_parameter(parameter, loss, numbers, draws));
  }
  return findings;
}

std::string gradient_report(const std::vector<GradientFinding>& findings) {
  size_t width = 0;
  for (const auto& finding : findings) width = std::max(width, finding.parameter.size());
  std::ostringstream text;
  int64_t wrong = 0, unused = 0;
  for (const auto& finding : findings) {
    text << "  " << std::left << std::setw(static_cast<int>(width) + 2) << finding.parameter;
    if (!finding.has_gradient) {
      text << "no gradient: the loss does not depend on it\n";
      ++unused;
      continue;
    }
    text << finding.checked << " numbers, largest relative error " << std::scientific << std::setprecision(1)
         << finding.largest_error << (finding.wrong() ? "  WRONG" : "") << "\n";
    wrong += finding.wrong() ? 1 : 0;
  }
  text << (wrong == 0 ? "backward agrees with finite differences"
                      : "backward does not agree with finite differences in " + std::to_string(wrong) + " parameters");
  if (unused > 0) {
    text << "; " << unused << " unused: remove them, or set trainer.find_unused_parameters=true for several workers";
  }
  text << "\n";
  return text.str();
}

}  // namespace ddprun
