// SPDX-License-Identifier: MIT
#include "metrics/histograms.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace ddprun {

Histogram histogram_of(const std::string& name, const at::Tensor& values, int64_t bins) {
  const at::NoGradGuard no_gradients;
  const auto all = values.flatten().to(at::kDouble).cpu();
  const auto finite = all.masked_select(all.isfinite());
  Histogram histogram{.name = name, .count = all.numel(), .nonfinite = all.numel() - finite.numel()};
  if (finite.numel() == 0) return histogram;
  histogram.min = finite.min().item<double>();
  histogram.max = finite.max().item<double>();
  histogram.mean = finite.mean().item<double>();
  histogram.stddev = finite.std(/*unbiased=*/false).item<double>();
  if (histogram.min == histogram.max) {
    histogram.edges = {histogram.min, histogram.max};
    histogram.counts = {finite.numel()};
    return histogram;
  }
  const double width = (histogram.max - histogram.min) / static_cast<double>(bins);
  for (int64_t i = 0; i < bins; ++i) histogram.edges.push_back(histogram.min + width * static_cast<double>(i));
  histogram.edges.push_back(histogram.max);
  const auto counts = finite.histc(bins, histogram.min, histogram.max).to(at::kLong).contiguous();
  histogram.counts.assign(counts.const_data_ptr<int64_t>(), counts.const_data_ptr<int64_t>() + bins);
  return histogram;
}

std::vector<Histogram> histograms_of_weights(const std::vector<NamedParameter>& parameters, int64_t bins) {
  std::vector<Histogram> histograms;
  for (const auto& parameter : parameters)
    histograms.push_back(histogram_of("weights/" + parameter.name, parameter.value.detach(), bins));
  return histograms;
}

std::vector<Histogram> histograms_of_gradients(const std::vector<NamedParameter>& parameters, int64_t bins) {
  std::vector<Histogram> histograms;
  for (const auto& parameter : parameters) {
    const auto& gradient = parameter.value.grad();
    if (gradient.defined()) histograms.push_back(histogram_of("gradients/" + parameter.name, gradient, bins));
  }
  return histograms;
}

}  // namespace ddprun
