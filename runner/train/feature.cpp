// SPDX-License-Identifier: MIT
#include "train/feature.h"

#include <ddprun/error.h>

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ddprun {

void Features::add(std::unique_ptr<Feature> feature) {
  if (feature) features_.push_back(std::move(feature));
}

bool Features::choose_parameters(int64_t step) const {
  bool changed = false;
  for (const auto& feature : features_) changed = feature->choose_parameters(step) || changed;
  return changed;
}

// Features agree: what one of them never trains is not trained.
std::optional<bool> Features::says(const std::string& parameter) const {
  std::optional<bool> said;
  for (const auto& feature : features_) {
    if (const auto own = feature->ever_trains(parameter)) said = said.value_or(true) && *own;
  }
  return said;
}

std::set<std::string> Features::never_trained(const Model& model) const {
  std::set<std::string> names;
  for (const auto& entry : model.named_parameters())
    if (!says(entry.key()).value_or(entry.value().requires_grad())) names.insert(entry.key());
  return names;
}

bool Features::finishes(Finish how) const {
  return std::ranges::any_of(features_, [&](const auto& feature) { return feature->finishes() == how; });
}

LeftOut Features::leaves_out() const {
  for (const auto& feature : features_)
    if (auto left_out = feature->leaves_out()) return *left_out;
  return {};
}

Look Features::look(int64_t step) const {
  auto closest = Look::kNone;
  for (const auto& feature : features_) closest = std::max(closest, feature->look(step));
  return closest;
}

std::vector<StepWatcher*> Features::watchers() const {
  std::vector<StepWatcher*> watchers;
  for (const auto& feature : features_)
    if (auto* watcher = feature->watcher()) watchers.push_back(watcher);
  return watchers;
}

uint64_t Features::votes(Loop& loop) const {
  uint64_t votes = 0;
  for (size_t i = 0; i < features_.size(); ++i) votes |= static_cast<uint64_t>(features_[i]->votes(loop)) << i;
  return votes;
}

void Features::elected(uint64_t votes, Loop& loop) const {
  for (size_t i = 0; i < features_.size(); ++i)
    if (votes >> i & 1) features_[i]->elected(loop);
}

TensorDict Features::state() const {
  TensorDict tensors;
  for (const auto& feature : features_) tensors.merge(feature->state());
  return tensors;
}

void Features::restore(Loop& loop, const std::string& where) const try {
  each(&Feature::restore, loop, std::as_const(loop.state.of_features));
} catch (const nlohmann::json::exception& error) {
  throw not_of_this_version(where, error);
}

}  // namespace ddprun
