// SPDX-License-Identifier: MIT
#include "tables.h"

#include <picture.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddprun::mlflow {
namespace {

// JSON has no numbers that are not finite.
Json numbers(const std::vector<double>& values) {
  auto list = Json::array();
  for (const double value : values) list.push_back(std::isfinite(value) ? Json(value) : Json(nullptr));
  return list;
}

template <class T>
Json at_or_null(const std::vector<T>& values, int64_t index) {
  const bool known = index >= 0 && index < static_cast<int64_t>(values.size());
  return known ? Json(values[static_cast<size_t>(index)]) : Json(nullptr);
}

// The columns that the rows of a table need.
struct Columns {
  bool image = false, output = false;
};

Columns columns_of(const PredictionTable& table) {
  const auto any = [&](auto member) {
    return std::ranges::any_of(table.rows, [&](const Prediction& row) { return !(row.*member).bytes.empty(); });
  };
  return {.image = any(&Prediction::image), .output = any(&Prediction::output)};
}

Json image_cell(const std::string& path, const ShownImage& image) {
  if (image.bytes.empty()) return nullptr;
  return {{"type", "image"}, {"filepath", path}, {"compressed_filepath", path}};
}

Json row_of(const PredictionTable& table, const Prediction& row, const Columns& columns) {
  auto cells = Json::array({row.id});
  if (columns.image) cells.push_back(image_cell(image_path(table, row), row.image));
  if (columns.output) cells.push_back(image_cell(output_path(table, row), row.output));
  if (table.class_names.empty()) {
    cells.push_back(numbers(row.true_values));
    if (!columns.output) cells.push_back(numbers(row.scores));
  } else {
    cells.push_back(at_or_null(table.class_names, row.truth));
    cells.push_back(at_or_null(table.class_names, row.guess));
    cells.push_back(at_or_null(numbers(row.scores).get<std::vector<Json>>(), row.guess));
  }
  return cells;
}

}  // namespace

Json table_of(const ConfusionTable& table) {
  auto columns = Json::array({"truth"}), data = Json::array();
  for (const auto& name : table.class_names) columns.push_back(name);
  const auto classes = table.class_names.size();
  for (size_t truth = 0; truth < classes; ++truth) {
    auto row = Json::array({table.class_names[truth]});
    for (size_t guess = 0; guess < classes; ++guess) row.push_back(table.counts[truth * classes + guess]);
    data.push_back(std::move(row));
  }
  return {{"columns", std::move(columns)}, {"data", std::move(data)}};
}

Json table_of(const PredictionTable& table) {
  const auto shown = columns_of(table);
  auto columns = Json::array({"sample"}), data = Json::array();
  if (shown.image) columns.push_back("image");
  if (shown.output) columns.push_back("output");
  columns.push_back("truth");
  if (!table.class_names.empty()) {
    columns.push_back("guess");
    columns.push_back("score");
  } else if (!shown.output) {
    columns.push_back("predicted");
  }
  std::vector<const Prediction*> rows;
  for (const auto& row : table.rows) rows.push_back(&row);
  std::ranges::stable_partition(rows, [](const Prediction* row) { return row->guess != row->truth; });
  for (const auto* row : rows) data.push_back(row_of(table, *row, shown));
  return {{"columns", std::move(columns)}, {"data", std::move(data)}};
}

}  // namespace ddprun::mlflow
