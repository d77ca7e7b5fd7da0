// SPDX-License-Identifier: MIT
#include "chunked_cross_entropy.h"

#include <ddprun/fused_layers.h>
#include <ddprun/objective.h>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace ddprun {
namespace {

// Returns whether [B, T, C] predictions stand against one class for each of the T symbols.
bool are_of_sequences(const at::Tensor& prediction, const at::Tensor& target) {
  return prediction.dim() == 3 && target.dim() == 2 && target.scalar_type() == at::kLong &&
         prediction.sizes().slice(0, 2) == target.sizes();
}

// Returns whether [B, C, H, W] predictions stand against one class for each pixel, or [B, C, D, H, W] for each voxel.
bool are_of_pixels(const at::Tensor& prediction, const at::Tensor& target) {
  return prediction.dim() >= 4 && target.dim() == prediction.dim() - 1 && target.scalar_type() == at::kLong &&
         prediction.size(0) == target.size(0) && prediction.sizes().slice(2) == target.sizes().slice(1);
}

at::Tensor count_correct_by_operators(const at::Tensor& scores, const at::Tensor& target) {
  const auto [greatest, guess] = scores.max(1);  // NaN is greater than all numbers
  return guess.eq(target).logical_and(greatest.eq(greatest)).sum();
}

// The GPU backend has one with a single kernel.
TORCH_LIBRARY_FRAGMENT(ddprun, library) {
  library.def("count_correct(Tensor scores, Tensor target) -> Tensor");
  library.impl("count_correct", c10::DispatchKey::CompositeExplicitAutograd, count_correct_by_operators);
  library.impl("count_correct", c10::DispatchKey::Autograd, torch::CppFunction::makeFallthrough());
}

// Of few classes: there the launches of several operators take longer than their work.
bool are_few(const at::Tensor& scores, const at::Tensor& target) {
  constexpr int64_t kMostClasses = 1024;
  return scores.scalar_type() == at::kFloat && scores.dim() == 2 && target.scalar_type() == at::kLong &&
         target.sizes() == scores.sizes().slice(0, 1) && target.device() == scores.device() && scores.numel() > 0 &&
         scores.size(1) <= kMostClasses;
}

}  // namespace

bool are_of_parts(const at::Tensor& prediction, const at::Tensor& target) {
  return are_of_sequences(prediction, target) || are_of_pixels(prediction, target);
}

Predicted as_samples(const at::Tensor& prediction, const at::Tensor& target) {
  if (are_of_sequences(prediction, target)) return {prediction.flatten(0, 1), target.flatten()};
  if (are_of_pixels(prediction, target)) return {prediction.movedim(1, -1).flatten(0, -2), target.flatten()};
  return {prediction, target};
}

at::Tensor count_classes(const at::Tensor& target) { return target.ne(kIgnoredClass).sum(); }

at::Tensor count_correct(const at::Tensor& scores, const at::Tensor& target) {
  if (!scores.is_cuda() || !are_few(scores, target)) return count_correct_by_operators(scores, target);
  static const auto kernel = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("ddprun::count_correct", "")
                                 .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  return kernel.call(scores, target);
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& target, double label_smoothing) {
  const bool are_rows =
      logits.dim() == 2 && target.dim() == 1 && target.scalar_type() == at::kLong && logits.size(0) == target.size(0);
  if (are_rows && are_many(logits) && fused_layers()) return chunked_cross_entropy(logits, target, label_smoothing);
  return at::cross_entropy_loss(logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat), target, {},
                                at::Reduction::Mean, kIgnoredClass, label_smoothing);
}

Objective::~Objective() = default;
void Objective::prepare(const DataSpec&) {}
at::Tensor Objective::counted(const at::Tensor&) const { return {}; }
bool Objective::takes_parts() const { return false; }
std::vector<MetricSum> Objective::metrics(const at::Tensor&, const at::Tensor&) const { return {}; }
std::vector<MetricCounts> Objective::counts(const at::Tensor&, const at::Tensor&) const { return {}; }

std::vector<std::pair<std::string, double>> Objective::summary(const std::vector<MetricCounts>&) const { return {}; }

at::Tensor Objective::scores(const at::Tensor& prediction) const { return prediction; }

}  // namespace ddprun
