// SPDX-License-Identifier: MIT
#include "weights/freezing.h"

#include "base/log.h"

#include <ddprun/error.h>
#include <ddprun/parameters.h>

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <unordered_map>
#include <utility>

namespace ddprun {
namespace {

using Names = std::vector<std::string>;

bool has_statistics(const torch::nn::Module& layer) {
  return layer.named_buffers(/*recurse=*/false).contains("running_var");
}

bool any_matches(const std::string& pattern, const Names& names) {
  return std::ranges::any_of(names, [&](const auto& name) { return name_matches(pattern, name); });
}

bool matches(const NamePatterns& patterns, const Names& names) {
  return std::ranges::any_of(patterns.patterns, [&](const auto& pattern) { return any_matches(pattern, names); });
}

std::string text_of(const Interval& interval) {
  return interval.epochs > 0 ? std::to_string(interval.epochs) + "ep" : std::to_string(interval.steps) + "st";
}

}  // namespace

void take_up_frozen(Model& model, const FreezingConfig& config) {
  for (const auto& pattern : config.freeze.patterns) {
    std::vector<at::Tensor> matching;
    for (const auto& entry : model.named_parameters())
      if (name_matches(pattern, entry.key())) matching.push_back(entry.value());
    if (std::ranges::any_of(matching, [](const auto& parameter) { return parameter.requires_grad(); })) continue;
    for (const auto& parameter : matching)
      if (parameter.is_floating_point()) parameter.set_requires_grad(true);
  }
}

Freezing::Freezing(std::vector<std::shared_ptr<Model>> models, const FreezingConfig& config, int64_t steps_per_epoch)
    : models_(std::move(models)) {
  if (config.freeze.patterns.empty()) return;
  const auto& model = *models_.front();
  std::unordered_map<const c10::TensorImpl*, size_t> places;
  for (const auto& entry : model.named_parameters()) {
    if (!entry.value().requires_grad()) {
      untrained_.push_back(entry.key());
      continue;
    }
    const auto [place, is_new] = places.try_emplace(entry.value().unsafeGetTensorImpl(), weights_.size());
    if (is_new) weights_.push_back({.numbers = entry.value().numel()});
    weights_[place->second].names.push_back(entry.key());
  }
  for (const auto& layer : model.named_modules("", /*include_self=*/false)) {
    if (!has_statistics(*layer.value()) || !layer.value()->parameters(/*recurse=*/false).empty()) continue;
    auto& statistics = weights_.emplace_back();
    for (const auto& buffer : layer.value()->named_buffers(/*recurse=*/false))
      statistics.names.push_back(layer.key() + "." + buffer.key());
  }
  freeze(config.freeze);
  for (const auto& unfreezing : config.unfreeze) unfreeze(unfreezing, steps_per_epoch);
  std::ranges::sort(unfreezings_, {}, &Unfreezing::step);
  for (const auto& weight : weights_) {
    if (weight.until == 0) continue;
    for (const auto& name : weight.names) frozen_[name] = weight.until;
  }
  for (const auto& one : models_) apply(*one);
}

void Freezing::freeze(const NamePatterns& patterns) {
  Names names;
  for (const auto& weight : weights_) names.insert(names.end(), weight.names.begin(), weight.names.end());
  for (const auto& pattern : patterns.patterns) {
    if (any_matches(pattern, names)) continue;
    throw UserError(patterns.place + "no parameter matches \"" + pattern + "\"" + nearest_pattern(pattern, names) +
                    "; the model has " + first_names(names));
  }
  bool any_trains = false;
  for (auto& weight : weights_) {
    if (matches(patterns, weight.names)) weight.until = kNever;
    any_trains = any_trains || (weight.numbers > 0 && weight.until == 0);
  }
  if (any_trains) return;
  throw UserError(patterns.place +
                  "it freezes all parameters of the model, so that nothing is left to train; leave out "
                  "its last layer: the model has " +
                  first_names(names));
}

void Freezing::unfreeze(const FreezingConfig::Unfreeze& unfreezing, int64_t steps_per_epoch) {
  const auto& [after, parameters] = unfreezing;
  const auto step = after.epochs > 0 ? after.epochs * steps_per_epoch : after.steps;
  Names frozen;
  for (const auto& weight : weights_)
    if (weight.until > 0) frozen.insert(frozen.end(), weight.names.begin(), weight.names.end());
  for (const auto& pattern : parameters.patterns) {
    if (any_matches(pattern, frozen)) continue;
    if (any_matches(pattern, untrained_))
      throw UserError(parameters.place + "the model itself does not train what matches \"" + pattern +
                      "\" (requires_grad=False): with a pattern for it alone in pretrained.freeze it can be unfrozen");
    throw UserError(parameters.place + "no frozen parameter matches \"" + pattern + "\"" +
                    nearest_pattern(pattern, frozen) + "; frozen are " + first_names(frozen));
  }
  for (auto& weight : weights_)
    if (weight.until > 0 && matches(parameters, weight.names)) weight.until = std::min(weight.until, step);
  unfreezings_.push_back({step, text_of(after)});
}

size_t Freezing::phase_of(int64_t step) const {
  return static_cast<size_t>(
      std::ranges::count_if(unfreezings_, [&](const Unfreezing& one) { return one.step <= step; }));
}

bool Freezing::enter(int64_t step) {
  const auto phase = phase_of(step);
  if (std::exchange(phase_, phase) == phase) return false;
  for (const auto& model : models_) apply(*model);
  return true;
}

bool Freezing::is_frozen(const std::string& name) const {
  const auto found = frozen_.find(name);
  return found != frozen_.end() && (found->second == kNever || phase_of(found->second) > phase_);
}

void Freezing::apply(Model& model) const {
  for (const auto& entry : model.named_parameters())
    if (frozen_.contains(entry.key())) entry.value().set_requires_grad(!is_frozen(entry.key()));
  model.keep_in_evaluation(frozen_norms(model));
}

std::vector<std::shared_ptr<torch::nn::Module>> Freezing::frozen_norms(const Model& model) const {
  std::vector<std::shared_ptr<torch::nn::Module>> norms;
  for (const auto& layer : model.named_modules("", /*include_self=*/false)) {
    if (!has_statistics(*layer.value())) continue;
    const auto own = layer.value()->named_parameters(/*recurse=*/false);
    const auto is_ours = [&](const std::string& name) { return is_frozen(layer.key() + "." + name); };
    const bool trains = std::ranges::any_of(own, [](const auto& entry) { return entry.value().requires_grad(); });
    const bool frozen = own.is_empty()
                            ? is_ours("running_var")
                            : std::ranges::any_of(own, [&](const auto& entry) { return is_ours(entry.key()); });
    if (frozen && !trains) norms.push_back(layer.value());
  }
  return norms;
}

bool Freezing::ever_trains(const std::string& name) const {
  const auto until = frozen_.find(name);
  return until == frozen_.end() || until->second != kNever;
}

std::set<std::string> Freezing::never_trained() const {
  std::set<std::string> names;
  for (const auto& entry : models_.front()->named_parameters()) {
    const auto until = frozen_.find(entry.key());
    const bool never = until == frozen_.end() ? !entry.value().requires_grad() : until->second == kNever;
    if (never) names.insert(entry.key());
  }
  return names;
}

std::string Freezing::text() const {
  int64_t all = 0, frozen = 0, numbers = 0, frozen_numbers = 0;
  std::map<int64_t, int64_t> until;
  for (const auto& weight : weights_) {
    if (weight.numbers == 0) continue;
    ++all;
    numbers += weight.numbers;
    if (!is_frozen(weight.names.front())) continue;
    ++frozen;
    frozen_numbers += weight.numbers;
    ++until[weight.until];
  }
  if (frozen == 0) return log::text("all ", all, " parameters train");
  std::ostringstream text;
  text << frozen << " of " << all << (all == 1 ? " parameter" : " parameters") << (frozen == 1 ? " is" : " are")
       << " frozen (" << std::fixed << std::setprecision(1)
       << 100 * static_cast<double>(frozen_numbers) / static_cast<double>(numbers) << " % of the weights)";
  for (const auto& one : unfreezings_) {
    const auto count = until.find(one.step);
    if (count == until.end()) continue;
    text << ", " << count->second << " of them until " << one.text;
    until.erase(count);
  }
  return text.str();
}

std::vector<std::string> Freezing::warnings(int64_t max_steps) const {
  std::vector<std::string> warnings;
  for (const auto& one : unfreezings_) {
    if (one.step < max_steps) continue;
    warnings.push_back(log::text("pretrained.unfreeze: ", one.text, " is not before the end of the run, ", max_steps,
                                 " steps, so that nothing is unfrozen there"));
  }
  return warnings;
}

}  // namespace ddprun
