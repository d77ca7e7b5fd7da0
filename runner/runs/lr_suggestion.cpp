// SPDX-License-Identifier: MIT
#include "runs/lr_suggestion.h"

#include "runs/config_lines.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>

namespace ddprun {
namespace {

constexpr size_t kFewest = 10;           // points
constexpr size_t kMost = 2000;           // more are joined
constexpr double kDecadesOfMean = 0.15;  // standard deviation of the weights of a mean
constexpr double kStepsOfMean = 2;       // the same in steps, at least
constexpr double kReach = 4;             // standard deviations that a mean reaches
constexpr double kFallOverNoise = 1.5;

double decades(const LossAtLr& point) { return std::log10(point.lr); }

// Returns the points with a finite loss by ascending lr, several joined into their mean if there are too many.
std::vector<LossAtLr> usable(const std::vector<LossAtLr>& points) {
  std::vector<LossAtLr> all;
  for (const auto& point : points) {
    const bool rises = std::isfinite(point.lr) && point.lr > (all.empty() ? 0 : all.back().lr);
    if (rises && std::isfinite(point.loss)) all.push_back(point);
  }
  const size_t joined = (all.size() + kMost - 1) / kMost;
  if (joined <= 1) return all;
  std::vector<LossAtLr> means;
  for (size_t i = 0; i + joined <= all.size(); i += joined) {
    double loss = 0;
    for (size_t k = i; k < i + joined; ++k) loss += all[k].loss / static_cast<double>(joined);
    means.push_back({all[i + joined / 2].lr, loss});
  }
  return means;
}

// Returns the level that is half as far above the first losses as the lowest is below them.
double ceiling_of(const std::vector<LossAtLr>& points) {
  const auto count = std::max<size_t>(3, points.size() / 10);
  double start = 0;
  for (size_t i = 0; i < count; ++i) start += points[i].loss / static_cast<double>(count);
  const auto lowest = std::ranges::min_element(points, {}, &LossAtLr::loss)->loss;
  return start + std::max(start - lowest, 0.0) / 2;
}

// Smooths in both directions, so that the curve does not lag behind: each loss becomes the mean of those around it,
// weighted by a Gaussian of their distance in decades of the lr.
std::vector<double> smoothed(const std::vector<LossAtLr>& points, double ceiling) {
  const auto steps = static_cast<double>(points.size() - 1);
  const double width = std::max(kDecadesOfMean, kStepsOfMean * (decades(points.back()) - decades(points[0])) / steps);
  std::vector<double> means;
  size_t first = 0;
  for (const auto& point : points) {
    double sum = 0, weights = 0;
    while (decades(point) - decades(points[first]) > kReach * width) ++first;
    for (size_t i = first; i < points.size(); ++i) {
      const double distance = (decades(points[i]) - decades(point)) / width;
      if (distance > kReach) break;
      const double weight = std::exp(-distance * distance / 2);
      sum += weight * std::min(points[i].loss, ceiling);
      weights += weight;
    }
    means.push_back(sum / weights);
  }
  return means;
}

// Returns the standard deviation of the losses around their means, up to this point.
double noise_of(const LrSuggestion& curve, size_t last) {
  double squares = 0;
  for (size_t i = 0; i <= last; ++i) squares += std::pow(curve.points[i].loss - curve.smoothed[i], 2);
  return std::sqrt(squares / static_cast<double>(last + 1));
}

// Returns whether each loss of the second half is above the first ones.
bool rises_from_the_start(const std::vector<LossAtLr>& points, size_t first) {
  const auto beginning = std::span(points).first(first + 1), half = std::span(points).subspan(points.size() / 2);
  return std::ranges::min_element(half, {}, &LossAtLr::loss)->loss >
         std::ranges::max_element(beginning, {}, &LossAtLr::loss)->loss;
}

// Returns where the smoothed loss falls fastest over the lr's logarithm.
size_t steepest(const LrSuggestion& curve, size_t first, size_t last) {
  size_t found = first;
  double least = 0;
  for (size_t i = first; i < last; ++i) {
    const double slope =
        (curve.smoothed[i + 1] - curve.smoothed[i - 1]) / (decades(curve.points[i + 1]) - decades(curve.points[i - 1]));
    if (slope >= least) continue;
    least = slope;
    found = i;
  }
  return found;
}

}  // namespace

LrSuggestion suggest_lr(const std::vector<LossAtLr>& points) {
  LrSuggestion curve{.points = usable(points)};
  const auto count = curve.points.size();
  if (count < kFewest) {
    curve.remark = "only " + std::to_string(count) + " steps have a finite loss: begin with a smaller lr (--from)";
    return curve;
  }
  curve.ceiling = ceiling_of(curve.points);
  curve.smoothed = smoothed(curve.points, curve.ceiling);
  const auto lowest = static_cast<size_t>(std::ranges::min_element(curve.smoothed) - curve.smoothed.begin());
  const auto first = std::max<size_t>(1, count / 10);
  const double clear = kFallOverNoise * noise_of(curve, std::max(first, lowest));
  const bool falls = lowest > first && curve.smoothed[0] - curve.smoothed[lowest] > clear;
  if (!falls && rises_from_the_start(curve.points, first)) {
    curve.remark = "the loss rises without having fallen: begin with a smaller lr (--from)";
  } else if (!falls) {
    curve.remark =
        "the loss does not fall by more than its noise: take more steps (--steps), larger batches "
        "(trainer.global_batch) or a larger lr at the end (--to)";
  } else {
    curve.lr = curve.points[steepest(curve, first, lowest)].lr;
    curve.lowest_lr = curve.points[lowest].lr;
    if (lowest + 1 == count) curve.remark = "the loss still falls at the end: a larger --to shows where it diverges";
  }
  return curve;
}

std::optional<LrSuggestion> suggest_lr(const Value& config, const Curves& curves) {
  if (value_at(config, {"schedule", "name"}, "") != "range_test") return std::nullopt;
  const auto curve = [&](const char* name) {
    const auto found =
        std::ranges::find_if(curves.curves, [&](const Curve& one) { return one.split == "train" && one.name == name; });
    return found == curves.curves.end() ? std::vector<Point>() : found->points;
  };
  const auto losses = curve("loss"), lrs = curve("lr");
  std::vector<LossAtLr> points;
  if (losses.size() != lrs.size() || lrs.empty()) return suggest_lr(points);
  // Rows have the lr with schedule.lr_scaling, which the experiment will apply to optimizer.lr again.
  const double from = std::atof(value_at(config, {"schedule", "from"}, "1e-7").c_str());
  const double scaling = lrs[0].value / from;
  for (size_t i = 0; i < lrs.size(); ++i) points.push_back({lrs[i].value / scaling, losses[i].value});
  auto found = suggest_lr(points);
  if (!curve("lr_1").empty() && found.lr) {
    found.remark += (found.remark.empty() ? "" : "; ") +
                    std::string("change the other learning rates of the optimizer by the same factor: they rose alike");
  }
  return found;
}

std::optional<LrSuggestion> suggest_lr(const std::filesystem::path& run_dir) {
  std::vector<std::string> problems;
  AttemptStarts starts;
  const auto config = read_config(run_dir / "config.yaml", problems);
  if (!config) return std::nullopt;
  return suggest_lr(*config, read_curves(run_dir / "metrics.jsonl", starts, problems));
}

std::string lr_text(double lr) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", lr);
  return text;
}

}  // namespace ddprun
