// SPDX-License-Identifier: MIT
#include "table_lines.h"

#include "picture.h"

#include <cmath>

namespace ddprun::jsonl {
namespace {

Json numbers(const std::vector<double>& values) {
  auto list = Json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

}  // namespace

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json counts_of(const ConfusionTable& table) {
  auto counts = Json::array();
  const auto classes = static_cast<std::ptrdiff_t>(table.class_names.size());
  for (auto row = table.counts.begin(); row != table.counts.end(); row += classes)
    counts.push_back(std::vector<int64_t>(row, row + classes));
  return counts;
}

Json rows_of(const PredictionTable& table, bool images) {
  auto rows = Json::array();
  for (const auto& row : table.rows) {
    Json one{{"id", row.id}};
    if (table.class_names.empty()) {
      one["truth"] = numbers(row.true_values);
    } else {
      one["truth"] = row.truth;
      one["guess"] = row.guess;
    }
    one["scores"] = numbers(row.scores);
    if (images && !row.image.bytes.empty()) one["image"] = image_path(table, row);
    if (images && !row.output.bytes.empty()) one["output"] = output_path(table, row);
    rows.push_back(std::move(one));
  }
  return rows;
}

Json histograms_of(const HistogramTable& table) {
  auto list = Json::array();
  for (const auto& one : table.histograms) {
    list.push_back({{"name", one.name},
                    {"count", one.count},
                    {"nonfinite", one.nonfinite},
                    {"min", one.min},
                    {"max", one.max},
                    {"mean", one.mean},
                    {"stddev", one.stddev},
                    {"edges", one.edges},
                    {"counts", one.counts}});
  }
  return list;
}

Json object_of(const RunStart& run) {
  auto layers = Json::array();
  for (const auto& layer : run.layers) {
    layers.push_back(
        {{"name", layer.name}, {"kind", layer.kind}, {"shape", layer.shape}, {"parameters", layer.parameters}});
  }
  auto ranks = Json::array();
  for (const auto& rank : run.ranks) ranks.push_back({{"host", rank.host}, {"device", rank.device}});
  return {{"time", run.time},
          {"name", run.name},
          {"attempt", run.attempt},
          {"resumed_step", run.resumed_step},
          {"world_size", run.world_size},
          {"nodes", run.nodes},
          {"global_batch", run.global_batch},
          {"steps_per_epoch", run.steps_per_epoch},
          {"max_epochs", run.max_epochs},
          {"max_steps", run.max_steps},
          {"parameters", run.parameters},
          {"model", run.model},
          {"dataset", run.dataset},
          {"optimizer", run.optimizer},
          {"device", run.device},
          {"backend", run.backend},
          {"ranks", std::move(ranks)},
          {"train_samples", run.train_samples},
          {"val_samples", run.val_samples},
          {"test_samples", run.test_samples},
          {"sample_shape", run.sample_shape},
          {"classes", run.classes},
          {"layers", std::move(layers)}};
}

}  // namespace ddprun::jsonl
