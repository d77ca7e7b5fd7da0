// SPDX-License-Identifier: MIT
// `ddprun data EXPERIMENT`: shows the samples before training, as text and as a page.
#include "agent/checked_experiment.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/data_pictures.h"
#include "config/config_files.h"
#include "data/account.h"
#include "data/data_text.h"
#include "launch/worker_process.h"
#include "plugin_host/plugin_call.h"
#include "report/report.h"

#include <iostream>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostNumbers = 50'000'000;  // read of a split's inputs: about a second

Json section_of(const char* id, const char* title, const TextTable& table, const std::string& text = "") {
  return {{"id", id},
          {"title", title},
          {"text", Json::array({text})},
          {"table", {{"head", table.head}, {"rows", table.rows}}}};
}

Json page_of(const CheckedExperiment& checked, const DataSurvey& survey) {
  int64_t samples = 0;
  std::string splits;
  for (const auto& split : survey.splits) {
    samples += split.samples;
    splits += (splits.empty() ? "" : ", ") + std::string(split_name(split.split)) + " " + grouped(split.samples);
  }
  const auto& input = survey.splits.front().input();
  auto tiles = Json::array({{"Samples", grouped(samples), splits}, {"A sample", shape_text(input.shape), input.type}});
  if (survey.spec.classes > 0) tiles.push_back({"Classes", grouped(survey.spec.classes), counts_text(survey)});
  auto sections = Json::array({samples_section(*checked.dataset, survey, checked.experiment.seed)});
  if (const auto classes = classes_table(survey); !classes.rows.empty()) {
    sections.push_back(section_of("counts", "Counts of each class", classes));
    sections.back()["table"]["bars"] = true;
  }
  sections.push_back(
      section_of("values", "Values, as the model gets them", values_table(survey), coverage_text(survey)));
  const auto account = account_text(survey.account);
  return {{"name", survey.experiment},
          {"about", "dataset " + survey.dataset},
          {"tiles", std::move(tiles)},
          {"text", Json::array({account.empty() ? "" : "Found: " + account + "."})},
          {"notice", {{"title", "Look at this"}, {"lines", doubts(survey)}}},
          {"sections", std::move(sections)}};
}

}  // namespace

int show_data(const Arguments& arguments) {
  const auto checked = check_experiment(
      {.experiment = arguments.target, .overrides = arguments.overrides, .search_path = config_search_path()});
  const auto out = arguments.out.empty() ? checked.experiment.name + "_data.html" : arguments.out;
  require_page(kDataPage, out);
  prepare_data(checked);
  with_places(checked.places, [&] {
    in_plugin({"dataset", "start"}, [&] { checked.dataset->start(); });
    const auto survey = survey_data(*checked.dataset, checked.experiment, kMostNumbers);
    write_page(kDataPage, survey.experiment + " data", page_of(checked, survey), out);
    std::cout << data_text(survey) << "The page with samples and all counts: " << out << "\n";
  });
  return kExitDone;
}

}  // namespace ddprun
