// SPDX-License-Identifier: MIT
#include <ddprun/optimizer.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace ddprun {

Optimizer::~Optimizer() = default;

void Optimizer::start(std::vector<NamedParameter> parameters) {
  groups_.push_back({.lr = initial_lr_, .parameters = std::move(parameters)});
}

std::vector<ParameterGroup> Optimizer::groups_by_lr_scale(double lr, std::vector<NamedParameter> parameters) const {
  std::vector<ParameterGroup> groups{{.lr = lr}};
  for (auto& parameter : parameters) {
    const auto known = lr_scales_.find(parameter.name);
    const auto scale = known == lr_scales_.end() ? 1 : known->second;
    auto group = std::ranges::find(groups, scale, &ParameterGroup::lr_scale);
    if (group == groups.end()) group = groups.insert(group, {.lr = lr, .lr_scale = scale});
    group->parameters.push_back(std::move(parameter));
  }
  std::sort(groups.begin() + 1, groups.end(), [](const auto& a, const auto& b) { return a.lr_scale > b.lr_scale; });
  return groups;
}

void Optimizer::step_unless(const at::Tensor& found_inf) {
  if (found_inf.item<float>() == 0) step();
}

bool Optimizer::send_lrs() { return false; }

std::vector<StepPart> Optimizer::step_parts() const { return {}; }

std::vector<StepPart> Optimizer::parts_by_parameter() const {
  std::vector<StepPart> parts;
  for (const auto& group : groups_) {
    for (const auto& [name, value] : group.parameters)
      parts.push_back({.parameters = {name}, .cost = static_cast<double>(value.numel())});
  }
  return parts;
}

}  // namespace ddprun
