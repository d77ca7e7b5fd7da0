// SPDX-License-Identifier: MIT
#include "worker/data_demands.h"

#include "base/log.h"
#include "config/feature_section.h"
#include "config/idle_settings.h"
#include "config/key_path.h"
#include "data/data_survey.h"
#include "plugin_host/plugin_call.h"
#include "train/train_state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace ddprun {
namespace {

bool is_of_classes(const Experiment& experiment) {
  return experiment.objective.plugin == "cross_entropy" || experiment.objective.plugin == "nll";
}

const Value* option_of(const PluginChoice& choice, const char* name) {
  return choice.options.is_map() ? choice.options.find(name) : nullptr;
}

DataSpec spec_of(const Dataset& dataset) {
  return in_plugin({"dataset", "spec"}, [&] { return dataset.spec(); });
}

// Throws PluginMistake if no training sample has a class that counts.
void require_weight(const Value& weights, const Dataset& dataset) {
  const auto labels = known_labels(dataset, Split::kTrain);
  if (!labels.defined() || labels.dim() != 1) return;
  const auto counts = at::bincount(labels.masked_select(labels.ge(0)));
  const auto counts_of = [&](size_t label) {
    const auto index = static_cast<int64_t>(label);
    return index < counts.numel() ? counts[index].item<int64_t>() : 0;
  };
  for (size_t label = 0; label < weights.items().size(); ++label) {
    if (counts_of(label) > 0 && std::strtod(weights.items()[label].text().c_str(), nullptr) > 0) return;
  }
  throw PluginMistake({"objective.class_weights",
                       "are 0 for every class that the training samples have, so that the loss is always 0"});
}

void require_different_names(std::vector<std::string> names) {
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end())
    throw PluginMistake({"dataset", "two of its classes have the same name, " + *twice + "; give each its own"});
}

// Returns whether some split lends its images from memory.
bool lends_images(const Dataset& dataset) {
  const auto lends = [&](Split split) {
    return in_plugin({"dataset", "images"}, [&] { return dataset.images(split).store != nullptr; });
  };
  return lends(Split::kTrain) || lends(Split::kVal) || lends(Split::kTest);
}

// Throws PluginMistake where the input is not to be read without a mask and the model never sees one. A model with a
// predict() of its own knows itself what it takes.
void require_mask(const DataSpec& spec, const Experiment& experiment, const Model& model) {
  if (spec.masks.empty() || !model.has_default_predict()) return;
  std::string names;
  for (const auto& name : spec.masks) names += (names.empty() ? "" : " or ") + name;
  throw PluginMistake({"model", experiment.model.plugin + " takes its input alone, and this dataset (" +
                                    experiment.dataset.plugin + ") needs one that takes " + names +
                                    " of the batch's extras, too, as the model transformer does"});
}

}  // namespace

void require_something_to_learn(const Experiment& experiment, const Dataset& dataset, const Model& model) {
  const auto spec = spec_of(dataset);
  require_different_names(spec.class_names);
  require_mask(spec, experiment, model);
  if (!model.has_default_step() || !is_of_classes(experiment)) return;  // its own loss may learn from one class
  if (spec.classes == 1) {
    const auto name = spec.class_names.empty() ? "" : ", " + spec.class_names.front();
    throw PluginMistake({"dataset", "all samples are of one class" + name +
                                        "; expected two at least: there is nothing to distinguish, and the loss of " +
                                        experiment.objective.plugin + " is always 0"});
  }
  if (const auto* weights = option_of(experiment.objective, "class_weights"); weights && !weights->items().empty())
    require_weight(*weights, dataset);
}

namespace {

// Returns lines for what is to be written at steps that the run does not come to.
std::vector<std::string> beyond_the_end(const Experiment& experiment, int64_t samples) {
  if (samples == 0) return {};
  const TrainPlan plan(experiment.trainer, samples);
  std::vector<std::string> lines;
  const auto check = [&](const BeginningKey& beginning) {
    const auto& [key, what, step] = beginning;
    const auto first = step(experiment, plan.steps_per_epoch());
    const auto* written = find_at(experiment.config, *parse_key_path(key));
    if (!written || first <= plan.max_steps()) return;
    lines.push_back(problem_line(written->origin(), key,
                                 log::text("has no effect: ", what, " after step ", first, ", and the run has ",
                                           plan.max_steps(), " steps of ", plan.steps_per_epoch(), " an epoch")));
  };
  for (const auto& section : feature_sections()) std::ranges::for_each(section.beginnings, check);
  return lines;
}

}  // namespace

std::vector<std::string> doubts_with_data(const Experiment& experiment, const Dataset& dataset) {
  const auto size = [&](Split split) { return in_plugin({"dataset", "size"}, [&] { return dataset.size(split); }); };
  auto found = idle_monitors(experiment, size(Split::kVal) > 0, size(Split::kTest) > 0);
  std::ranges::move(beyond_the_end(experiment, size(Split::kTrain)), std::back_inserter(found));
  const auto classes = spec_of(dataset).classes;
  const auto* metrics = is_of_classes(experiment) ? option_of(experiment.objective, "metrics") : nullptr;
  for (const auto& metric : metrics ? metrics->items() : std::vector<Value>()) {
    const auto& name = metric.text();
    if (classes > 0 && name.starts_with("top") && std::atoll(name.c_str() + 3) >= classes)
      found.push_back(problem_line(metric.origin(), "objective.metrics",
                                   log::text(name, " of ", classes, " classes is always 100 %; omit it")));
  }
  const auto* section = experiment.config.find("dataset");
  const auto* resident = section && section->is_map() ? section->find("resident") : nullptr;
  if (resident && experiment.resident == Resident::kHost && !lends_images(dataset))
    found.push_back(problem_line(resident->origin(), "dataset.resident",
                                 "has no effect: this dataset does not keep images in memory"));
  if (const auto doubt = doubt_of_scales(dataset); !doubt.empty()) found.push_back("dataset: " + doubt);
  return found;
}

std::string unused_objective(const Experiment& experiment) {
  return "the model " + experiment.model.plugin + " computes its own loss; `objective:` is ignored in training";
}

}  // namespace ddprun
