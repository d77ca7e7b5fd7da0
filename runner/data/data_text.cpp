// SPDX-License-Identifier: MIT
#include "data/data_text.h"

#include "base/log.h"
#include "base/terminal.h"
#include "data/account.h"
#include "metrics/predictions.h"

#include <algorithm>
#include <cstdio>

namespace ddprun {
namespace {

constexpr int64_t kMostClasses = 20;  // shown one by one in the terminal
constexpr size_t kWidestName = 30, kMostNames = 5;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// Returns the splits whose classes are counted.
std::vector<const SplitSurvey*> counted(const DataSurvey& survey) {
  std::vector<const SplitSurvey*> splits;
  for (const auto& split : survey.splits) {
    if (!split.per_class.empty()) splits.push_back(&split);
  }
  return splits;
}

// Wraps the text at 80 columns and indents the lines after the first.
std::string lines_of(const std::string& text) { return text.empty() ? "" : wrapped(text, 0, 2) + "\n"; }

// Returns a table, or of many classes a sentence.
std::string classes_text(const DataSurvey& survey) {
  if (counted(survey).empty()) return "";
  auto table = classes_table(survey);
  for (auto& row : table.rows) row.front() = cut_back(row.front(), kWidestName);
  if (survey.spec.classes <= kMostClasses) return "\n" + table.text();
  return "\n" + lines_of(log::text("Each of the ", grouped(survey.spec.classes), " classes has ", counts_text(survey),
                                   "; all counts are on the page."));
}

std::string head_text(const DataSurvey& survey) {
  const auto& parts = survey.splits.front().parts;
  const auto form = [](const PartSurvey& part) {
    return (part.shape.empty() ? "one " : shape_text(part.shape) + " ") + part.type;
  };
  std::string extras;
  for (size_t i = 2; i < parts.size(); ++i)
    extras += (i == 2 ? " with " : " and ") + parts[i].name + " of " + form(parts[i]);
  const auto text =
      log::text(survey.experiment, " has the dataset ", survey.dataset, ": samples of ", form(parts[0]), extras, ", ");
  if (survey.spec.classes > 0) return text + grouped(survey.spec.classes) + " classes";
  return text + "targets of " + form(parts[1]);
}

std::string first_names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i)
    text += (i == 0 ? "" : ", ") + cut_back(names[i], kWidestName);
  return names.size() > kMostNames ? text + log::text(" and ", names.size() - kMostNames, " more") : text;
}

void doubt_numbers(const SplitSurvey& split, std::vector<std::string>& found) {
  const std::string name = split_name(split.split);
  for (const auto& [part, type, shape, range] : split.parts) {
    const auto what = part == "input" || part == "target" ? "the " + part + "s" : part;
    if (range.not_finite > 0)
      found.push_back(log::text(name, ": ", grouped(range.not_finite), " numbers of ", what, " are NaN or infinite"));
    if (range.count > 1 && range.least == range.greatest)
      found.push_back(log::text(name, ": all numbers of ", what, " are ", number(range.least)));
  }
}

// Doubts classes without a training sample, but not of a text: none has all the words of a vocabulary.
void doubt_classes(const DataSurvey& survey, std::vector<std::string>& found) {
  const auto& train = survey.splits.front();
  if (train.split != Split::kTrain || train.counted < train.samples || train.is_text()) return;
  const auto names = class_names(survey.spec, survey.spec.classes);
  std::vector<std::string> empty;
  for (size_t i = 0; i < train.per_class.size(); ++i)
    if (train.per_class[i] == 0) empty.push_back(names[i]);
  if (!empty.empty())
    found.push_back(log::text(empty.size(), empty.size() == 1 ? " class has" : " classes have",
                              " no training sample: ", first_names(empty)));
}

}  // namespace

std::string TextTable::text() const {
  std::vector<size_t> widths(head.size());
  auto lines = rows;
  lines.insert(lines.begin(), head);
  for (const auto& line : lines)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width_of(line[i]));
  std::string text;
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string space(widths[i] - width_of(line[i]), ' ');
      text += i == 0 ? line[i] + space : "  " + space + line[i];
    }
    text += "\n";
  }
  return text;
}

TextTable values_table(const DataSurvey& survey) {
  TextTable table{.head = {"split", "samples", "least", "greatest", "mean", "std"}, .rows = {}};
  for (const auto& split : survey.splits) {
    for (const auto& part : split.parts) {
      const auto& range = part.range;
      const bool is_input = &part == &split.parts.front();
      if (!is_input && range.count + range.not_finite == 0) continue;  // classes
      auto& row = table.rows.emplace_back();
      row = {is_input ? split_name(split.split) : "  " + part.name, is_input ? grouped(split.samples) : ""};
      for (const auto value : {range.least, range.greatest, range.mean, range.std})
        row.push_back(range.count == 0 ? "-" : number(value));
    }
  }
  return table;
}

TextTable classes_table(const DataSurvey& survey) {
  TextTable table{.head = {"class"}, .rows = {}};
  const auto splits = counted(survey);
  if (splits.empty()) return table;
  for (const auto& name : class_names(survey.spec, survey.spec.classes)) table.rows.push_back({name});
  for (const auto* split : splits) {
    table.head.emplace_back(split_name(split->split));
    for (size_t i = 0; i < table.rows.size(); ++i) table.rows[i].push_back(grouped(split->per_class[i]));
  }
  return table;
}

std::string counts_text(const DataSurvey& survey) {
  std::string text;
  for (const auto* split : counted(survey)) {
    const auto [least, most] = std::ranges::minmax(split->per_class);
    text += log::text(text.empty() ? "" : ", ", grouped(least), least == most ? "" : " to " + grouped(most), " in ",
                      split_name(split->split));
  }
  return text;
}

std::string coverage_text(const DataSurvey& survey) {
  std::string parts;
  bool counts_too = false;
  for (const auto& split : survey.splits) {
    if (split.looked_at == split.samples) continue;
    parts += log::text(parts.empty() ? "" : ", ", grouped(split.looked_at), " of ", grouped(split.samples), " of ",
                       split_name(split.split));
    counts_too |= !split.per_class.empty() && split.counted < split.samples;
  }
  const auto what = counts_too ? "The values and counts" : "The values";
  return parts.empty() ? "" : log::text(what, " are those of ", parts, ", spread evenly.");
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const auto size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

std::string augmentation_text(const AugmentationSurvey& found) {
  if (found.changed == 0) return "none; training uses the samples as stored";
  const auto text = log::text(found.changed, " of ", found.samples, " training samples are changed, ");
  return text + (found.otherwise == 0 ? "in the same way in each epoch" : "differently in each epoch");
}

std::vector<std::string> doubts(const DataSurvey& survey) {
  std::vector<std::string> found;
  for (const auto& split : survey.splits) {
    doubt_numbers(split, found);
    const std::string name = split_name(split.split);
    if (!split.scales.empty()) found.push_back(name + ": " + split.scales);
    if (!split.per_class.empty() && std::ranges::max(split.per_class) == 0)
      found.push_back(name + ": no target is a class, so that nothing counts");
  }
  doubt_classes(survey, found);
  return found;
}

std::string data_text(const DataSurvey& survey) {
  auto text = lines_of(head_text(survey)) + "\n" + values_table(survey).text() + lines_of(coverage_text(survey)) +
              classes_text(survey) + "\n";
  if (const auto account = account_text(survey.account); !account.empty()) text += lines_of("Found: " + account + ".");
  text += lines_of("Augmentation: " + augmentation_text(survey.augmentation) + ".");
  for (const auto& doubt : doubts(survey)) text += lines_of("Warning: " + doubt + ".");
  return text;
}

}  // namespace ddprun
