// SPDX-License-Identifier: MIT
#include "train/objective.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>

#include <sstream>

namespace ddprun {
namespace {

[[noreturn]] void shapes_do_not_fit(const char* name, const char* expected, const at::Tensor& prediction,
                                    const at::Tensor& target) {
  std::ostringstream text;
  text << "objective " << name << ": expects " << expected << "; the model returned " << prediction.sizes() << " "
       << prediction.scalar_type() << ", the dataset's target is " << target.sizes() << " " << target.scalar_type();
  throw UserError(text.str());
}

// Predictions of C classes and one class index each.
void check_classes(const char* name, const at::Tensor& prediction, const at::Tensor& target) {
  const bool fits = prediction.dim() == 2 && target.dim() == 1 && prediction.size(0) == target.size(0) &&
                    target.scalar_type() == at::kLong;
  if (!fits) shapes_do_not_fit(name, "[B, C] predictions and [B] int64 classes", prediction, target);
}

class CrossEntropy final : public Objective {
 public:
  explicit CrossEntropy(double label_smoothing) : label_smoothing_(label_smoothing) {}

  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    check_classes("cross_entropy", prediction, target);
    return at::cross_entropy_loss(prediction, target, {}, at::Reduction::Mean, -100, label_smoothing_);
  }

 private:
  double label_smoothing_;
};

class NegativeLogLikelihood final : public Objective {
 public:
  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    check_classes("nll", prediction, target);
    return at::nll_loss(prediction, target);
  }
};

class MeanSquaredError final : public Objective {
 public:
  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    if (prediction.sizes() != target.sizes()) {
      shapes_do_not_fit("mse", "a prediction of the target's shape", prediction, target);
    }
    return at::mse_loss(prediction, target);
  }
};

}  // namespace

std::unique_ptr<Objective> make_objective(const std::string& name, Options& options) {
  if (name == "cross_entropy") {
    return std::make_unique<CrossEntropy>(
        options.get<double>("label_smoothing", 0, "share of the target spread over all classes", {.min = 0, .max = 1}));
  }
  if (name == "nll") return std::make_unique<NegativeLogLikelihood>();
  if (name == "mse") return std::make_unique<MeanSquaredError>();
  const auto near = nearest_name(name, {"cross_entropy", "nll", "mse"});
  options.reject("name", "expected cross_entropy | nll | mse, found \"" + name + "\"" +
                             (near.empty() ? "" : "; did you mean " + near + "?"));
  return nullptr;
}

}  // namespace ddprun
