// SPDX-License-Identifier: MIT
#include "features/record/step_page.h"

#include "agent/checked_experiment.h"
#include "base/log.h"
#include "cli/data_pictures.h"
#include "data/loader.h"
#include "plugin_host/plugin_call.h"
#include "report/report.h"

#include <ddprun/error.h>

#include <algorithm>
#include <vector>

namespace ddprun {
namespace {

constexpr size_t kMostOnPage = 200;  // samples with pictures

nlohmann::ordered_json samples_of(const CheckedExperiment& checked, const StepView& view) {
  auto worst = worst_first(view.record);
  worst.resize(std::min(worst.size(), kMostOnPage));
  std::vector<int64_t> numbers;
  for (const auto& sample : worst) numbers.push_back(sample.number);
  prepare_data(checked);
  const auto& dataset = *checked.dataset;
  in_plugin({"dataset", "start"}, [&] { checked.dataset->start(); });
  const auto plan = step_plan(checked.experiment.trainer, dataset.size(Split::kTrain));
  return shown_samples(dataset, numbers, checked.experiment.seed, (view.record.step - 1) / plan.steps_per_epoch());
}

}  // namespace

void write_step_page(const std::filesystem::path& run, const StepView& view, const std::string& head,
                     const std::filesystem::path& out) {
  const auto checked = check_experiment({.experiment = run / "config.yaml", .frozen = true});
  with_places(checked.places, [&] {
    auto sheet = step_sheet(view, head, samples_of(checked, view));
    sheet["name"] = checked.experiment.name;
    sheet["run"] = run.string();
    write_page(kStepPage, log::text(checked.experiment.name, " step ", view.record.step), std::move(sheet), out);
  });
}

}  // namespace ddprun
