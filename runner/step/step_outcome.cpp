// SPDX-License-Identifier: MIT
#include "step/step_outcome.h"

#include "base/log.h"
#include "plugin_host/plugin_call.h"

namespace ddprun {

void require_loss(const at::Tensor& loss) {
  if (!loss.defined() || !loss.requires_grad())
    throw PluginMistake({"model", "the loss depends on no parameter; check for detach(), item() or a NoGradGuard"});
  if (loss.numel() != 1)
    throw PluginMistake(
        {"model", log::text("the loss is ", loss.sizes(), ": expected one number, the mean over the samples")});
}

std::vector<std::string> without_gradient(const std::vector<NamedParameter>& parameters) {
  std::vector<std::string> names;
  for (const auto& parameter : parameters) {
    if (!parameter.value.grad().defined()) names.push_back(parameter.name);
  }
  return names;
}

std::string unused_text(const std::vector<std::string>& names) {
  std::string list;
  for (const auto& name : names) list += (list.empty() ? "" : ", ") + name;
  return "the loss does not depend on these parameters, so they are not trained, and training with several workers "
         "would fail: " +
         list + ". Use them in forward, or do not register them; trainer.find_unused_parameters=true allows them";
}

StepOutcome::StepOutcome(const StepResults& results, c10::Device device)
    : results_(results), device_(device), numbers_(std::make_shared<DeviceNumbers>(results.numbers)) {}

MetricSums StepOutcome::sums() const { return results_.sums.with(numbers_->get().slice(0, results_.checked), device_); }

at::Tensor StepOutcome::mean_loss() const {
  const auto loss = results_.sums.with(results_.numbers.slice(0, results_.checked), device_).mean_loss();
  return loss.defined() ? loss.to(at::kFloat) : loss;  // a copy, since the next step may overwrite the numbers
}

}  // namespace ddprun
