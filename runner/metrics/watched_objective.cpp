// SPDX-License-Identifier: MIT
#include "metrics/watched_objective.h"

#include "plugin_host/plugin_call.h"

#include <c10/util/StringUtil.h>

namespace ddprun {
namespace {

void require_number_for_each_class(const at::Tensor& prediction, const at::Tensor& target, int64_t classes) {
  const auto samples = target.dim() > 0 ? target.size(0) : 0;
  if (prediction.dim() == 2 && prediction.size(1) == classes) return;
  throw PluginMistake({"model", c10::str("forward() gives ", prediction.sizes(), ": expected [", samples, ", ", classes,
                                         "], a number for each of the dataset's classes")});
}

}  // namespace

at::Tensor WatchedObjective::loss(const at::Tensor& prediction, const at::Tensor& target) const {
  was_asked_.store(true, std::memory_order_relaxed);
  if (classes_ > 0) require_number_for_each_class(prediction, target, classes_);
  return in_plugin({"objective", "loss"}, [&] { return objective_->loss(prediction, target); });
}

std::vector<MetricSum> WatchedObjective::metrics(const at::Tensor& prediction, const at::Tensor& target) const {
  return in_plugin({"objective", "metrics"}, [&] { return objective_->metrics(prediction, target); });
}

std::unique_ptr<WatchedObjective> watched_objective(const Experiment& experiment, const Model& model,
                                                    const DataSpec& data, Phase phase) {
  Options options(experiment.objective_options, "objective");
  const auto& name = experiment.objective;
  const bool by_classes = model.has_default_step() && (name == "cross_entropy" || name == "nll");
  return std::make_unique<WatchedObjective>(make_objective(name, options, phase), by_classes ? data.classes : 0);
}

}  // namespace ddprun
