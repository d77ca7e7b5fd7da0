// SPDX-License-Identifier: MIT
#include "data/data_text.h"

#include "base/log.h"
#include "base/terminal.h"
#include "data/account.h"
#include "metrics/predictions.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace ddprun {
namespace {

using Row = std::vector<std::string>;

constexpr size_t kMostClasses = 20;   // shown in full
constexpr size_t kFewestAndMost = 5;  // shown from each end if there are more
constexpr size_t kWidestName = 30, kNamesTold = 5;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// Formats rows with the first column aligned left and the others right.
std::string table(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - width_of(row[i]), ' ');
      text += i == 0 ? row[i] + (row.size() > 1 ? space : "") : "  " + space + row[i];
    }
    text += "\n";
  }
  return text;
}

Row range_row(const std::string& what, const std::string& samples, const NumberRange& range) {
  if (range.count == 0) return {what, samples, "-", "-", "-", "-"};
  return {what, samples, number(range.least), number(range.greatest), number(range.mean), number(range.std)};
}

std::string splits_text(const DataSurvey& survey) {
  std::vector<Row> rows{{"split", "samples", "least", "greatest", "mean", "std"}};
  std::string parts;
  for (const auto& split : survey.splits) {
    const std::string name = split_name(split.split);
    rows.push_back(range_row(name, grouped(split.samples), split.input));
    if (split.target.count + split.target.not_finite > 0) rows.push_back(range_row("  target", "", split.target));
    for (const auto& extra : split.extras) rows.push_back(range_row("  " + extra.name, "", extra.range));
    if (split.looked_at == split.samples) continue;
    parts +=
        log::text(parts.empty() ? "" : ", ", grouped(split.looked_at), " of ", grouped(split.samples), " of ", name);
  }
  return table(rows) + (parts.empty() ? "" : "The values are those of " + parts + ", spread evenly.\n");
}

// Returns the splits whose classes are counted.
std::vector<const SplitSurvey*> counted(const DataSurvey& survey) {
  std::vector<const SplitSurvey*> splits;
  for (const auto& split : survey.splits) {
    if (!split.per_class.empty()) splits.push_back(&split);
  }
  return splits;
}

Row class_row(const std::string& name, size_t index, const std::vector<const SplitSurvey*>& splits) {
  Row row{cut_back(name, kWidestName)};
  for (const auto* split : splits) row.push_back(grouped(split->per_class[index]));
  return row;
}

bool is_even(const SplitSurvey* split) {
  return std::ranges::all_of(split->per_class, [&](int64_t count) { return count == split->per_class.front(); });
}

std::string even_text(const DataSurvey& survey, const std::vector<const SplitSurvey*>& splits) {
  std::string text;
  for (const auto* split : splits)
    text += log::text(text.empty() ? "" : ", ", grouped(split->per_class.front()), " in ", split_name(split->split));
  return log::text("Each of the ", grouped(survey.spec.classes), " classes has ", text, ".\n");
}

// Formats all classes or, if there are many, the rarest and the most frequent.
std::string classes_text(const DataSurvey& survey) {
  const auto splits = counted(survey);
  if (splits.empty()) return "";
  const auto names = class_names(survey.spec, survey.spec.classes);
  std::vector<size_t> order(names.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const bool folded = order.size() > kMostClasses;
  if (folded) std::ranges::stable_sort(order, {}, [&](size_t index) { return splits.front()->per_class[index]; });
  Row head{"class"};
  std::string parts;
  for (const auto* split : splits) {
    const std::string name = split_name(split->split);
    head.push_back(name);
    if (split->counted < split->samples)
      parts +=
          log::text(parts.empty() ? "" : ", ", grouped(split->counted), " of ", grouped(split->samples), " of ", name);
  }
  if (folded && std::ranges::all_of(splits, is_even)) return "\n" + even_text(survey, splits);
  std::vector<Row> rows{head};
  for (size_t i = 0; i < order.size(); ++i) {
    const bool shown = !folded || i < kFewestAndMost || i >= order.size() - kFewestAndMost;
    if (shown) rows.push_back(class_row(names[order[i]], order[i], splits));
    if (folded && i == kFewestAndMost)
      rows.push_back({log::text("... ", order.size() - 2 * kFewestAndMost, " more, on the page")});
  }
  if (std::ranges::any_of(splits, [](const SplitSurvey* split) { return split->ignored > 0; })) {
    rows.push_back({"ignored"});
    for (const auto* split : splits) rows.back().push_back(grouped(split->ignored));
  }
  return "\n" + table(rows) + (parts.empty() ? "" : "Counts cover " + parts + ", spread evenly.\n");
}

std::string first_names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamesTold); ++i)
    text += (i == 0 ? "" : ", ") + cut_back(names[i], kWidestName);
  return names.size() > kNamesTold ? text + log::text(" and ", names.size() - kNamesTold, " more") : text;
}

// Wraps the text at 80 columns and indents the lines after the first.
std::string told(const std::string& text) { return wrapped(text, 0, 2) + "\n"; }

std::string head_text(const DataSurvey& survey) {
  const auto& first = survey.splits.front();
  std::string extras;
  for (const auto& [name, type, range] : first.extras) {
    const auto& shape = survey.spec.extras.at(name);
    extras += log::text(extras.empty() ? " with " : " and ", name, " of ", shape.empty() ? "one" : shape_text(shape),
                        " ", type);
  }
  auto text = log::text(survey.experiment, " has the dataset ", survey.dataset, ": samples of ",
                        shape_text(survey.spec.sample_shape), " ", first.input_type, extras);
  if (survey.spec.classes > 0) return text + log::text(", ", grouped(survey.spec.classes), " classes");
  return text + ", targets of " + (first.target_shape.empty() ? "one " : shape_text(first.target_shape) + " ") +
         first.target_type;
}

}  // namespace

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
    const std::string name = split_name(split.split);
    std::vector<std::pair<std::string, NumberRange>> ranges{{"the inputs", split.input}, {"the targets", split.target}};
    for (const auto& extra : split.extras) ranges.emplace_back(extra.name, extra.range);
    for (const auto& [what, range] : ranges) {
      if (range.not_finite > 0)
        found.push_back(log::text(name, ": ", grouped(range.not_finite), " numbers of ", what, " are NaN or infinite"));
      if (range.count > 1 && range.least == range.greatest)
        found.push_back(log::text(name, ": all numbers of ", what, " are ", number(range.least)));
    }
    if (!split.scales.empty()) found.push_back(name + ": " + split.scales);
    if (split.ignored > 0 && std::ranges::all_of(split.per_class, [](int64_t count) { return count == 0; }))
      found.push_back(name + ": all targets are ignored, so that nothing counts");
  }
  const auto splits = counted(survey);
  if (splits.empty() || splits.front()->split != Split::kTrain || splits.front()->counted < splits.front()->samples)
    return found;
  if (splits.front()->is_text()) return found;  // no text has all the words of a vocabulary
  const auto names = class_names(survey.spec, survey.spec.classes);
  std::vector<std::string> empty;
  for (size_t i = 0; i < names.size(); ++i) {
    if (splits.front()->per_class[i] == 0) empty.push_back(names[i]);
  }
  if (!empty.empty())
    found.push_back(log::text(empty.size(), empty.size() == 1 ? " class has" : " classes have",
                              " no training sample: ", first_names(empty)));
  return found;
}

std::string data_text(const DataSurvey& survey) {
  auto text = told(head_text(survey)) + "\n" + splits_text(survey) + classes_text(survey) + "\n";
  if (const auto account = account_text(survey.account); !account.empty()) text += told("Found: " + account + ".");
  text += told("Augmentation: " + augmentation_text(survey.augmentation) + ".");
  for (const auto& doubt : doubts(survey)) text += told("Warning: " + doubt + ".");
  return text;
}

}  // namespace ddprun
