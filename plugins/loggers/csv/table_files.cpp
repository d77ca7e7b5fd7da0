// SPDX-License-Identifier: MIT
#include "table_files.h"

#include "csv_cell.h"
#include "picture.h"

#include <ddprun/files.h>

#include <array>
#include <charconv>
#include <cmath>

namespace ddprun::csv {
namespace {

std::string name_of(int64_t index, const std::vector<std::string>& names) {
  const bool known = index >= 0 && index < static_cast<int64_t>(names.size());
  return csv_cell(known ? names[static_cast<size_t>(index)] : std::to_string(index));
}

std::string numbered(const std::string& name, size_t count) {
  std::string heads;
  for (size_t i = 0; i < count; ++i) heads += "," + name + "_" + std::to_string(i);
  return heads;
}

std::string head(const PredictionTable& table) {
  if (table.class_names.empty()) {
    const auto* row = table.rows.empty() ? nullptr : &table.rows.front();
    return "id,image" + numbered("truth", row ? row->true_values.size() : 0) +
           numbered("prediction", row ? row->scores.size() : 0);
  }
  std::string text = "id,image,guess,truth";
  for (const auto& name : table.class_names) text += "," + csv_cell("score_" + name);
  return text;
}

}  // namespace

std::string number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.begin(), text.end(), value).ptr};
}

void write_confusion(const std::filesystem::path& file, const ConfusionTable& table) {
  std::string text = "truth";
  for (const auto& name : table.class_names) text += "," + csv_cell(name);
  text += "\n";
  const size_t classes = table.class_names.size();
  for (size_t truth = 0; truth < classes; ++truth) {
    text += csv_cell(table.class_names[truth]);
    for (size_t guess = 0; guess < classes; ++guess)
      text += "," + std::to_string(table.counts.at(truth * classes + guess));
    text += "\n";
  }
  make_folder(file.parent_path());
  replace_file(file, text);
}

void write_predictions(const std::filesystem::path& file, const PredictionTable& table) {
  std::string text = head(table) + "\n";
  for (const auto& row : table.rows) {
    text += std::to_string(row.id) + "," + (row.image.bytes.empty() ? "" : csv_cell(image_path(table, row)));
    if (!table.class_names.empty()) {
      text += "," + name_of(row.guess, table.class_names) + "," + name_of(row.truth, table.class_names);
    }
    for (const double value : row.true_values) text += "," + number(value);
    for (const double score : row.scores) text += "," + number(score);
    text += "\n";
  }
  make_folder(file.parent_path());
  replace_file(file, text);
}

}  // namespace ddprun::csv
