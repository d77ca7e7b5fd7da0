// SPDX-License-Identifier: MIT
#include "step/lr_policy.h"

#include "plugin_host/plugin_call.h"

#include <string>
#include <utility>

namespace ddprun {

LrPolicy::LrPolicy(std::shared_ptr<Optimizer> optimizer, Schedule schedule, bool sends)
    : optimizer_(std::move(optimizer)), schedule_(std::move(schedule)), sends_(sends) {
  for (const auto& group : optimizer_->groups()) own_.push_back(group.lr);
}

void LrPolicy::set(int64_t step, const std::function<int64_t()>& applied) {
  if (set_for_ == step) return;
  const auto count = applied();
  auto& groups = optimizer_->groups();
  for (size_t i = 0; i < groups.size(); ++i) groups[i].lr = factor_ * groups[i].lr_scale * schedule_.lr(own_[i], count);
  if (sends_) send();
  set_for_ = step;
}

bool LrPolicy::send() {
  return in_plugin({"optimizer", "send_lrs"}, [&] { return optimizer_->send_lrs(); });
}

NamedValues LrPolicy::values() const {
  const auto& groups = optimizer_->groups();
  NamedValues lrs{{"lr", groups.front().lr}};
  int64_t number = 0;
  for (size_t i = 1; i < groups.size(); ++i) {
    if (groups[i].lr_scale != 1) continue;  // a part of the one before
    ++number;
    if (own_[i] != own_[0]) lrs.emplace_back("lr_" + std::to_string(number), groups[i].lr);
  }
  return lrs;
}

}  // namespace ddprun
