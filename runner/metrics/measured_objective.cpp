// SPDX-License-Identifier: MIT
#include "metrics/measured_objective.h"

#include "metrics/objective.h"
#include "metrics/value_metrics.h"

#include <ddprun/error.h>

#include <algorithm>
#include <iterator>

namespace ddprun {
namespace {

// Appends what the built-in objective measures to what the plugin does.
template <class Measured>
std::vector<Measured> joined(std::vector<Measured> own, std::vector<Measured> more) {
  for (const auto& one : more) {
    if (std::ranges::find(own, one.name, &Measured::name) != own.end())
      throw UserError("objective.metrics: the loss measures " + one.name + " by itself; leave it out of the list");
  }
  std::ranges::move(more, std::back_inserter(own));
  return own;
}

}  // namespace

MeasuredObjective::MeasuredObjective(std::shared_ptr<Objective> loss, Value metrics)
    : loss_(std::move(loss)),
      metrics_(std::move(metrics)),
      of_values_(std::ranges::any_of(metrics_.items(), is_value_metric, &Value::text)),
      measure_(measuring(of_values_ ? "mse" : "cross_entropy")) {}

std::unique_ptr<Objective> MeasuredObjective::measuring(const std::string& name) const {
  auto options = Value::map();
  options.set("metrics", metrics_);
  return make_built_in_objective(name, options, "objective");
}

void MeasuredObjective::prepare(const DataSpec& data) {
  loss_->prepare(data);
  if (!of_values_ && data.classes == 0) measure_ = measuring("bce");
  measure_->prepare(data);
}

at::Tensor MeasuredObjective::loss(const at::Tensor& prediction, const at::Tensor& target) const {
  return loss_->loss(prediction, target);
}

at::Tensor MeasuredObjective::counted(const at::Tensor& target) const { return loss_->counted(target); }

bool MeasuredObjective::takes_parts() const { return loss_->takes_parts(); }

std::vector<MetricSum> MeasuredObjective::metrics(const at::Tensor& prediction, const at::Tensor& target) const {
  return joined(loss_->metrics(prediction, target), measure_->metrics(prediction, target));
}

std::vector<MetricCounts> MeasuredObjective::counts(const at::Tensor& prediction, const at::Tensor& target) const {
  return joined(loss_->counts(prediction, target), measure_->counts(prediction, target));
}

std::vector<std::pair<std::string, double>> MeasuredObjective::summary(const std::vector<MetricCounts>& totals) const {
  auto values = loss_->summary(totals);
  std::ranges::move(measure_->summary(totals), std::back_inserter(values));
  return values;
}

at::Tensor MeasuredObjective::scores(const at::Tensor& prediction) const { return loss_->scores(prediction); }

OptionDeclaration measured_metrics() {
  auto keys = objective_keys();
  const auto found = std::ranges::find(keys, "metrics", &OptionDeclaration::name);
  return {.name = found->name,
          .type = found->type,
          .help =
              "metrics of the prediction besides those of the loss, as the built-in objectives have them: f1, "
              "auroc, confusion ..."};
}

}  // namespace ddprun
