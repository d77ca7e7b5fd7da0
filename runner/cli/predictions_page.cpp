// SPDX-License-Identifier: MIT
#include "cli/predictions_page.h"

#include "base/terminal.h"
#include "cli/data_pictures.h"
#include "plugin_host/plugin_call.h"
#include "report/report.h"
#include "report/tables.h"

#include <ddprun/dataset.h>
#include <ddprun/error.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

Split split_of(const PredictionsPage& page) {
  for (const auto split : {Split::kTrain, Split::kVal})
    if (page.inputs.empty() && page.split == split_name(split)) return split;
  return Split::kTest;
}

// Opens the samples, as the workers have done.
void open_samples(const PredictionsPage& page) {
  auto& dataset = *page.checked.dataset;
  if (!page.started) in_plugin({"dataset", "start"}, [&] { dataset.start(); });
  if (!page.inputs.empty()) in_plugin({"dataset", "use_inputs"}, [&] { dataset.use_inputs(page.inputs); });
}

// Puts the pictures into the rows, or the values where the samples are not pictures.
void add_samples(const PredictionsPage& page, Json& rows) {
  std::vector<int64_t> numbers;
  for (const auto& row : rows) numbers.push_back(row["id"].get<int64_t>());
  const auto samples = stored_samples(*page.checked.dataset, split_of(page), numbers);
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].contains("stored")) rows[i]["image"] = samples[i]["stored"];
    if (samples[i].contains("input")) rows[i]["input"] = samples[i]["input"];
  }
}

Json tiles_of(const Json& result) {
  const auto samples = result.at("samples").get<int64_t>();
  auto tiles = Json::array({{"Samples", grouped(samples), ""}});
  if (!result.contains("correct")) return tiles;
  const auto correct = result["correct"].get<int64_t>();
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.2f %%",
                100 * static_cast<double>(correct) / static_cast<double>(std::max<int64_t>(1, samples)));
  tiles.push_back({"Correct", percent, grouped(correct)});
  tiles.push_back({"Misclassified", grouped(samples - correct), ""});
  return tiles;
}

std::string help_of(const Json& shown) {
  const auto count = grouped(static_cast<int64_t>(shown["rows"].size()));
  if (shown["classes"].empty()) return "The " + count + " samples that are furthest off.";
  const auto is_unknown = [](const Json& row) { return row["truth"] == -1; };
  if (std::ranges::all_of(shown["rows"], is_unknown))
    return "The " + count + " samples that the model is least sure of.";
  return "Mistakes first, the surest at the top; then what it is least sure of: " + count + " samples in all.";
}

}  // namespace

void write_predictions_page(const PredictionsPage& page, const std::filesystem::path& out) {
  with_places(page.checked.places, [&] {
    open_samples(page);
    ImageShelf no_images(page.run);
    auto shown = shown_predictions(page.result.at("worst"), no_images);
    add_samples(page, shown["rows"]);
    const auto& name = page.checked.experiment.name;
    const auto help = help_of(shown);
    write_page(kPredictionsPage, name + " predictions",
               {{"name", name},
                {"about", page.inputs.empty() ? "split " + page.split : "new files"},
                {"tiles", tiles_of(page.result)},
                {"text", Json::array({"By the checkpoint of " + page.checkpoint + "."})},
                {"run", page.run.string()},
                {"sections", Json::array({{{"id", "predictions"},
                                           {"title", "Predictions"},
                                           {"text", Json::array({help})},
                                           {"predicted", std::move(shown)}}})}},
               out);
  });
}

}  // namespace ddprun
