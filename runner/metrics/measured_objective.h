// SPDX-License-Identifier: MIT
// The loss of a plugin with the metrics of a built-in objective: what `metrics` names in the section of an objective
// plugin that has no such option.
#pragma once

#include <ddprun/objective.h>
#include <ddprun/options.h>
#include <ddprun/value.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

class MeasuredObjective final : public Objective {
 public:
  // `metrics` is the list of their names. Those of values are those of mse; others are those of cross_entropy, or of
  // bce if the data have no classes, and take the prediction for logits. Throws UserError for unknown names.
  MeasuredObjective(std::shared_ptr<Objective> loss, Value metrics);

  void prepare(const DataSpec& data) override;
  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override;
  at::Tensor counted(const at::Tensor& target) const override;
  bool takes_parts() const override;

  // Throw UserError for a name that the plugin gives, too.
  std::vector<MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const override;
  std::vector<MetricCounts> counts(const at::Tensor& prediction, const at::Tensor& target) const override;

  std::vector<std::pair<std::string, double>> summary(const std::vector<MetricCounts>& totals) const override;
  at::Tensor scores(const at::Tensor& prediction) const override;

 private:
  std::unique_ptr<Objective> measuring(const std::string& name) const;

  std::shared_ptr<Objective> loss_;
  Value metrics_;
  const bool of_values_;
  std::unique_ptr<Objective> measure_;
};

// Returns the declaration of the option, for help and editors.
OptionDeclaration measured_metrics();

}  // namespace ddprun
