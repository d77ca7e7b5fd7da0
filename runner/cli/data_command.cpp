// SPDX-License-Identifier: MIT
// `ddprun data EXPERIMENT`: shows the samples before training, as text and as a page.
#include "agent/checked_experiment.h"
#include "cli/commands.h"
#include "cli/data_pictures.h"
#include "config/config_files.h"
#include "data/account.h"
#include "data/data_text.h"
#include "launch/worker_process.h"
#include "metrics/predictions.h"
#include "plugin_host/plugin_call.h"
#include "report/report.h"

#include <ddprun/error.h>

#include <cmath>
#include <iostream>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostNumbers = 50'000'000;  // read of a split's inputs: about a second

DataSurvey survey_of(const CheckedExperiment& checked) {
  const auto& dataset = *checked.dataset;
  in_plugin({"dataset", "start"}, [&] { checked.dataset->start(); });
  DataSurvey survey{.experiment = checked.experiment.name,
                    .dataset = checked.experiment.dataset.plugin,
                    .spec = in_plugin({"dataset", "spec"}, [&] { return dataset.spec(); }),
                    .splits = survey_splits(dataset, kMostNumbers),
                    .augmentation = survey_augmentation(dataset, checked.experiment.seed),
                    .account = account_of(dataset)};
  if (survey.augmentation.samples == 0) throw PluginMistake({"dataset", "it has no training samples"});
  return survey;
}

Json range_json(const NumberRange& range) {
  if (range.count == 0) return nullptr;
  return {{"least", range.least}, {"greatest", range.greatest}, {"mean", range.mean}, {"std", range.std}};
}

Json page_of(const CheckedExperiment& checked, const DataSurvey& survey) {
  const auto& spec = survey.spec;
  auto splits = Json::array();
  for (const auto& split : survey.splits) {
    auto extras = Json::array();
    for (const auto& extra : split.extras)
      extras.push_back({{"name", extra.name}, {"type", extra.type}, {"range", range_json(extra.range)}});
    splits.push_back({{"name", split_name(split.split)},
                      {"samples", split.samples},
                      {"looked_at", split.looked_at},
                      {"input", range_json(split.input)},
                      {"target", range_json(split.target)},
                      {"extras", std::move(extras)},
                      {"counted", split.counted},
                      {"per_class", split.per_class},
                      {"ignored", split.ignored}});
  }
  return {{"name", survey.experiment},
          {"dataset", survey.dataset},
          {"sample", shape_text(spec.sample_shape) + " " + survey.splits.front().input_type},
          {"shape", spec.sample_shape},
          {"classes", class_names(spec, spec.classes)},
          {"splits", std::move(splits)},
          {"augmentation", augmentation_text(survey.augmentation)},
          {"account", account_json(survey.account)},
          {"doubts", doubts(survey)},
          {"groups", shown_samples(*checked.dataset, survey, checked.experiment.seed)}};
}

}  // namespace

int show_data(const Arguments& arguments) {
  const auto checked = check_experiment(
      {.experiment = arguments.target, .overrides = arguments.overrides, .search_path = config_search_path()});
  const auto out = arguments.out.empty() ? checked.experiment.name + "_data.html" : arguments.out;
  require_page(kDataPage, out);
  prepare_data(checked);
  with_places(checked.places, [&] {
    const auto survey = survey_of(checked);
    auto page = page_of(checked, survey);
    write_page(kDataPage, survey.experiment + " data", std::move(page), out);
    std::cout << data_text(survey) << "The page with samples and all counts: " << out << "\n";
  });
  return kExitDone;
}

}  // namespace ddprun
