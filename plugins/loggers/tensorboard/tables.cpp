// SPDX-License-Identifier: MIT
#include "tables.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace ddprun::tensorboard {
namespace {

constexpr size_t kMostRows = 100;
constexpr int64_t kMostClasses = 40;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string numbers(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + number(value);
  return text;
}

// Returns a class's name, without what would end the cell or begin a tag.
std::string name_of(const std::vector<std::string>& names, int64_t index) {
  const bool known = index >= 0 && index < std::ssize(names);
  std::string name;
  for (const char letter : known ? names[static_cast<size_t>(index)] : "") {
    if (letter == '|' || letter == '<' || letter == '\\') name += '\\';
    name += letter == '\n' ? ' ' : letter;
  }
  return name;
}

std::string row_of(const PredictionTable& table, const Prediction& row) {
  const auto id = "| " + std::to_string(row.id) + " | ";
  if (table.class_names.empty()) {
    const auto predicted = row.output.bytes.empty() ? numbers(row.scores) : "an image";
    return id + numbers(row.true_values) + " | " + predicted + " |\n";
  }
  const bool scored = row.guess >= 0 && row.guess < static_cast<int64_t>(row.scores.size());
  const bool wrong = row.guess != row.truth;
  return id + name_of(table.class_names, row.truth) + " | " + (wrong ? "**" : "") +
         name_of(table.class_names, row.guess) + (wrong ? "**" : "") + " | " +
         (scored ? number(row.scores[static_cast<size_t>(row.guess)]) : "") + " |\n";
}

}  // namespace

std::string prediction_table(const PredictionTable& table) {
  std::vector<const Prediction*> rows;
  for (const auto& row : table.rows) rows.push_back(&row);
  std::ranges::stable_partition(rows, [](const Prediction* row) { return row->guess != row->truth; });
  std::string text = table.class_names.empty() ? "| sample | truth | predicted |\n|---|---|---|\n"
                                               : "| sample | truth | guess | score |\n|---|---|---|---|\n";
  for (size_t i = 0; i < std::min(rows.size(), kMostRows); ++i) text += row_of(table, *rows[i]);
  if (rows.size() > kMostRows) text += "\n" + std::to_string(kMostRows) + " of " + std::to_string(rows.size()) + "\n";
  return text;
}

std::string confusion_table(const ConfusionTable& table) {
  const auto classes = std::ssize(table.class_names);
  if (classes > kMostClasses)
    return std::to_string(classes) + " classes are too many for a table; tables.jsonl and report.html have all.\n";
  std::string text = "| truth \\ guess |", rule = "\n|---|";
  for (int64_t guess = 0; guess < classes; ++guess) {
    text += " " + name_of(table.class_names, guess) + " |";
    rule += "---|";
  }
  text += rule + "\n";
  for (int64_t truth = 0; truth < classes; ++truth) {
    text += "| " + name_of(table.class_names, truth) + " |";
    for (int64_t guess = 0; guess < classes; ++guess) {
      const auto count = table.counts.at(static_cast<size_t>(truth * classes + guess));
      const std::string mark = guess != truth && count > 0 ? "**" : "";
      text += " " + mark + std::to_string(count) + mark + " |";
    }
    text += "\n";
  }
  return text;
}

std::string verbatim(const std::string& text) {
  std::string block;
  bool begins = true;
  for (const char letter : text) {
    if (begins && letter != '\n') block += "    ";
    begins = letter == '\n';
    block += letter;
  }
  return block;
}

}  // namespace ddprun::tensorboard
