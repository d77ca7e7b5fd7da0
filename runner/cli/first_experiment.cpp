// SPDX-License-Identifier: MIT
#include "cli/first_experiment.h"

#include "base/log.h"
#include "config/compose.h"
#include "config/interpolation.h"
#include "submit/submission.h"

#include <ddprun/error.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>
#include <sstream>

namespace ddprun {
namespace {

constexpr int64_t kSmallImage = 64;    // up to this side a network of two convolutions learns quickly on a CPU
constexpr int64_t kSmallestImage = 6;  // that it takes
constexpr int64_t kEpochs = 10;        // at least
constexpr int64_t kBatch = 64, kTextBatch = 16;
constexpr double kUneven = 3;  // times as many samples

int64_t training_samples(const DataSurvey& survey) { return survey.splits.front().samples; }

bool has_val(const DataSurvey& survey) {
  return std::ranges::find(survey.splits, Split::kVal, &SplitSurvey::split) != survey.splits.end();
}

// Ten steps an epoch at least, if there are so few samples.
int64_t batch_for(int64_t samples, int64_t most) {
  const auto tenth = static_cast<uint64_t>(std::max<int64_t>(samples / 10, 4));
  return std::min({most, samples, static_cast<int64_t>(std::bit_floor(tenth))});
}

// As many as make a thousand steps, if there are so few samples.
int64_t epochs_for(int64_t samples, int64_t batch) {
  constexpr int64_t kFewSteps = 1000, kMostEpochs = 60;
  return std::clamp(kFewSteps * batch / std::max<int64_t>(1, samples), kEpochs, kMostEpochs);
}

bool are_images(const DataSpec& spec) {
  const auto& shape = spec.sample_shape;
  return shape.size() == 3 && std::min(shape[1], shape[2]) >= kSmallestImage;
}

const char* template_for_values(const std::vector<int64_t>& target_shape) {
  if (target_shape.size() > 1)
    throw UserError(
        "targets of " + shape_text(target_shape) +
        " values: no model that comes with ddprun predicts them; `ddprun docs plugins` says how to write one");
  return kValuesExperiment;
}

const char* template_for(const DataSurvey& survey) {
  const auto& spec = survey.spec;
  const auto& target = survey.splits.front().target_shape;
  if (spec.classes == 0) return template_for_values(target);
  if (survey.splits.front().is_text()) return kTextExperiment;
  if (survey.splits.front().input_type == "int64" || target.size() == 1)
    throw UserError(
        "samples are sequences of numbers with classes: no recipe fits them; begin with experiments/text.yaml, or with "
        "a model written in Python (`ddprun docs models`)");
  if (target.size() == 2) return kPixelsExperiment;
  if (!are_images(spec)) return kNumbersExperiment;
  const bool small = std::max(spec.sample_shape[1], spec.sample_shape[2]) <= kSmallImage;
  return small ? kPicturesExperiment : kLargePicturesExperiment;
}

// The values of the templates' ${places}. A line of early stopping, or of what `best` is by, needs validation samples.
using PlaceValues = std::map<std::string, std::optional<std::string>, std::less<>>;

PlaceValues values_for(const DataSurvey& survey) {
  constexpr int64_t kMostWarmup = 100, kSamplesOfAWarmupStep = 16;
  const auto samples = training_samples(survey);
  const auto& target = survey.splits.front().target_shape;
  const bool text = survey.splits.front().is_text();
  const auto batch = batch_for(samples, text ? kTextBatch : kBatch);
  const auto epochs = text ? kEpochs : epochs_for(samples, batch);
  PlaceValues values{{"batch", std::to_string(batch)},
                     {"epochs", std::to_string(epochs)},
                     {"outputs", std::to_string(target.empty() ? 1 : target.front())},
                     {"warmup", std::to_string(std::clamp<int64_t>(samples / kSamplesOfAWarmupStep, 1, kMostWarmup))},
                     {"patience", std::nullopt},
                     {"best", std::nullopt}};
  if (has_val(survey)) {
    values["patience"] = std::to_string(std::max<int64_t>(3, epochs / 4));
    values["best"] = text ? "val/perplexity" : "val/loss";
  }
  return values;
}

// Returns the line with its places filled; nothing if one of them has no value, and of remarks on the template.
std::string filled_line(std::string line, const PlaceValues& values) {
  if (line.starts_with("##")) return "";
  for (size_t at = 0; (at = line.find("${", at)) != line.npos;) {
    const auto end = line.find('}', at);
    const auto& value = values.at(line.substr(at + 2, end - at - 2));
    if (!value) return "";
    line.replace(at, end + 1 - at, *value);
  }
  return line + "\n";
}

std::string filled(const std::string& yaml_template, const PlaceValues& values) {
  std::istringstream lines(yaml_template);
  std::string text;
  for (std::string line; std::getline(lines, line);) text += filled_line(std::move(line), values);
  return text;
}

// A list of numbers, which reads better in a line.
bool is_flow(const Value& value) {
  const auto is_number = [](const Value& item) {
    const auto& text = item.text();
    char* end = nullptr;
    std::strtod(text.c_str(), &end);
    return !text.empty() && end == text.c_str() + text.size();
  };
  return value.is_list() && std::ranges::all_of(value.items(), is_number);
}

std::string flow_lines(const Value::Entry& entry) {
  constexpr size_t kColumns = 100;
  std::string text = entry.key + ": [";
  size_t column = text.size();
  for (size_t i = 0; i < entry.value.items().size(); ++i) {
    const auto& word = entry.value.items()[i].text();
    const bool wraps = column + word.size() + 2 > kColumns;
    text += std::string(i == 0 ? "" : ",") + (wraps ? "\n   " : i == 0 ? "" : " ") + word;
    column = (wraps ? 3 : column + 2) + word.size();
  }
  return text + "]\n";
}

std::string dataset_lines(const FirstExperiment& first) {
  std::string text = "dataset:\n";
  for (const auto& entry : first.dataset.entries()) {
    auto one = Value::map();
    one.set(entry.key, entry.value);
    auto lines = is_flow(entry.value) ? flow_lines(entry) : to_yaml(one, /*origins=*/false);
    lines.pop_back();
    for (size_t at = 0; (at = lines.find('\n', at)) != lines.npos; at += 3) lines.replace(at, 1, "\n  ");
    const auto remark = first.remarks.find(entry.key);
    text += "  " + lines + (remark == first.remarks.end() ? "" : "  # " + remark->second) + "\n";
  }
  return text;
}

// Returns what classes of unequal size may need, as a comment to take or leave.
std::string balance_lines(const DataSurvey& survey) {
  if (imbalance(survey) < kUneven || !survey.splits.front().target_shape.empty()) return "";
  return "# The classes are uneven. This draws each equally often; add it to the trainer above:\n"
         "# trainer: {sampling: {balance: class}}\n";
}

std::string head_lines(const FirstExperiment& first) {
  const auto command = [&](const std::string& words, const std::string& what) {
    const auto line = "#   ddprun " + words;
    return line + std::string(line.size() < 48 ? 48 - line.size() : 2, ' ') + "# " + what + "\n";
  };
  return "# A first experiment for " + first.place + ", by `ddprun init`: a beginning, to be changed.\n#\n" +
         command("data " + shell_word(first.file), "look at the samples before you train") +
         command("check " + shell_word(first.file), "find mistakes") + command(shell_word(first.file), "train") +
         (has_val(first.survey) && !first.survey.splits.front().is_text()
              ? command("predict " + shell_word("outputs/" + first.name + "/latest") +
                            " best --split val --html mistakes.html",
                        "then look at its mistakes")
              : "");
}

}  // namespace

double imbalance(const DataSurvey& survey) {
  if (survey.splits.front().is_text()) return 1;
  int64_t least = 0, most = 0;
  for (const auto count : survey.splits.front().per_class) {
    if (count > 0) least = least == 0 ? count : std::min(least, count);
    most = std::max(most, count);
  }
  return least == 0 ? 1 : static_cast<double>(most) / static_cast<double>(least);
}

std::string first_experiment_text(const FirstExperiment& first) {
  const auto& survey = first.survey;
  const auto rest = filled(template_for(survey), values_for(survey));
  auto name = Value::map();
  name.set("name", Value::scalar(escape_references(first.name)));
  return head_lines(first) + to_yaml(name, /*origins=*/false) + "seed: 42\n\n" + dataset_lines(first) + "\n" + rest +
         balance_lines(survey);
}

}  // namespace ddprun
