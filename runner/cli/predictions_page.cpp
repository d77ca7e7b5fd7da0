// SPDX-License-Identifier: MIT
#include "cli/predictions_page.h"

#include "cli/data_pictures.h"
#include "plugin_host/plugin_call.h"
#include "report/report.h"
#include "report/tables.h"

#include <ddprun/dataset.h>
#include <ddprun/error.h>

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
    if (samples[i].contains("values")) rows[i]["input"] = samples[i]["values"];
  }
}

}  // namespace

void write_predictions_page(const PredictionsPage& page, const std::filesystem::path& out) {
  with_places(page.checked.places, [&] {
    open_samples(page);
    ImageShelf no_images(page.run);
    auto shown = shown_predictions(page.result.at("worst"), no_images);
    add_samples(page, shown["rows"]);
    const auto& name = page.checked.experiment.name;
    shown["name"] = name;
    shown["run"] = page.run.string();
    shown["checkpoint"] = page.checkpoint;
    shown["split"] = page.inputs.empty() ? page.split : "";
    shown["samples"] = page.result.at("samples");
    if (page.result.contains("correct")) shown["correct"] = page.result["correct"];
    write_page(kPredictionsPage, name + " predictions", std::move(shown), out);
  });
}

}  // namespace ddprun
