// SPDX-License-Identifier: MIT
#include "metrics/task_metrics.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>

namespace ddprun {
namespace {

// The K of "topK"; 0 for another name.
int64_t top_k(const std::string& name) {
  int64_t k = 0;
  if (!name.starts_with("top")) return 0;
  const auto [stop, error] = std::from_chars(name.data() + 3, name.data() + name.size(), k);
  return error == std::errc() && stop == name.data() + name.size() && k >= 1 ? k : 0;
}

std::vector<std::string> names(Options& options, std::vector<std::string> fallback, std::string_view help) {
  auto found = options.get<std::vector<std::string>>("metrics", std::move(fallback), help);
  std::vector<std::string> once;
  for (auto& name : found) {
    if (std::ranges::find(once, name) == once.end()) once.push_back(std::move(name));
  }
  return once;
}

void reject(Options& options, const std::string& name, const std::string& known) {
  options.reject("metrics", "this objective has no metric \"" + name + "\"; known: " + known);
}

at::Tensor mean_over_values(const at::Tensor& errors) { return errors.dim() > 1 ? errors.flatten(1).mean(1) : errors; }

}  // namespace

ClassMetrics::ClassMetrics(Options& options) {
  for (const auto& name : names(options, {"accuracy"}, "accuracy, top5 (or any number), confusion")) {
    const auto k = top_k(name);
    if (name == "accuracy") {
      accuracy_ = true;
    } else if (name == "confusion") {
      confusion_ = true;
    } else if (k > 0) {
      top_.push_back(k);
    } else {
      reject(options, name, "accuracy, top5 (or any number), confusion");
    }
  }
}

std::vector<MetricSum> ClassMetrics::sums(const at::Tensor& scores, const at::Tensor& target) const {
  std::vector<MetricSum> sums;
  const int64_t samples = target.size(0);
  if (accuracy_) {
    sums.push_back({.name = "accuracy", .sum = scores.argmax(1).eq(target).sum(), .count = samples});
  }
  for (const auto k : top_) {
    const auto best = std::get<1>(scores.topk(std::min(k, scores.size(1)), 1));
    sums.push_back(
        {.name = "top" + std::to_string(k), .sum = best.eq(target.unsqueeze(1)).any(1).sum(), .count = samples});
  }
  return sums;
}

ValueMetrics::ValueMetrics(Options& options) {
  for (const auto& name : names(options, {"mae"}, "mae (mean absolute error), mse (mean squared error)")) {
    if (name == "mae") {
      mae_ = true;
    } else if (name == "mse") {
      mse_ = true;
    } else {
      reject(options, name, "mae, mse");
    }
  }
}

std::vector<MetricSum> ValueMetrics::sums(const at::Tensor& prediction, const at::Tensor& target) const {
  std::vector<MetricSum> sums;
  const auto errors = prediction - target;
  const int64_t samples = target.size(0);
  if (mae_) sums.push_back({.name = "mae", .sum = mean_over_values(errors.abs()).sum(), .count = samples});
  if (mse_) sums.push_back({.name = "mse", .sum = mean_over_values(errors.square()).sum(), .count = samples});
  return sums;
}

at::Tensor confusion_counts(const at::Tensor& guess, const at::Tensor& truth, int64_t classes) {
  constexpr int64_t kIgnored = -100;  // a symbol that cross-entropy ignores
  const auto counted = truth.ne(kIgnored);
  auto counts = at::zeros({classes * classes}, truth.options());
  counts.index_add_(0, at::where(counted, truth * classes + guess, 0), counted.to(truth.scalar_type()));
  return counts.view({classes, classes});
}

}  // namespace ddprun
