// SPDX-License-Identifier: MIT
#include "metrics/value_metrics.h"

#include "metrics/class_metrics.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

const std::vector<std::string> kValueMetrics{"mae", "mse"};

// The mean over classes has no ending: f1_macro is f1.
std::string nearest_metric(const std::string& name, const std::vector<std::string>& known) {
  const auto base = name.substr(0, name.rfind("_macro"));
  return std::ranges::find(known, base) != known.end() ? base : nearest_name(name, known);
}

at::Tensor mean_over_values(const at::Tensor& errors) { return errors.dim() > 1 ? errors.flatten(1).mean(1) : errors; }

}  // namespace

bool is_value_metric(const std::string& name) { return std::ranges::find(kValueMetrics, name) != kValueMetrics.end(); }

std::vector<std::string> metric_choices(Options& options, std::vector<std::string> fallback, std::string_view help) {
  auto found = options.get<std::vector<std::string>>("metrics", std::move(fallback), help);
  std::vector<std::string> once;
  for (auto& name : found) {
    if (std::ranges::find(once, name) == once.end()) once.push_back(std::move(name));
  }
  return once;
}

void reject_metric(Options& options, const char* objective, const std::string& name,
                   const std::vector<std::string>& known) {
  std::string text = std::string(objective) + " has no metric \"" + name + "\"";
  if (const auto near = nearest_metric(name, known); !near.empty()) {
    text += "; did you mean " + near + "?";
  } else if (is_class_metric(name)) {
    text += ", which is one of classes: cross_entropy, nll and bce have it";
  } else if (is_value_metric(name)) {
    text += ", which is one of values: mse and l1 have it";
  }
  text += "; known: ";
  for (const auto& one : known) text += (&one == &known.front() ? "" : ", ") + one;
  options.reject("metrics", text);
}

ValueMetrics::ValueMetrics(const char* objective, Options& options) {
  for (const auto& name : metric_choices(options, {"mae"}, "mae (mean absolute error), mse (mean squared error)")) {
    if (name == "mae") {
      mae_ = true;
    } else if (name == "mse") {
      mse_ = true;
    } else {
      reject_metric(options, objective, name, kValueMetrics);
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

}  // namespace ddprun
