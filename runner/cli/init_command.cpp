// SPDX-License-Identifier: MIT
// `ddprun init DATA`: looks at data, says what they are, and writes a first experiment for them.
#include "base/log.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/first_experiment.h"
#include "cli/found_data.h"
#include "cli/table_arrays.h"
#include "data/data_text.h"
#include "data/sample_order.h"
#include "launch/worker_process.h"
#include "plugin_host/plugin_call.h"
#include "shown_text.h"
#include "submit/submission.h"

#include <ddprun/dataset.h>
#include <ddprun/error.h>

#include <ATen/ops/equal.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <optional>
#include <utility>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNumbersLookedAt = 10'000'000;  // of a split's inputs
constexpr int64_t kBatch = 64, kTextBatch = 16;
constexpr double kUneven = 3;  // times as many samples

// YAML holds UTF-8 only.
void require_text(std::string place) {
  const bool breaks = std::ranges::any_of(place, [](unsigned char byte) { return byte < 0x20 || byte == 0x7F; });
  if (is_utf8(place) && !breaks) return;
  std::ranges::replace_if(place, [](unsigned char byte) { return byte < 0x20 || byte >= 0x7F; }, '?');
  throw UserError("the name " + std::string(breaks ? "has a control character in it" : "is not UTF-8 text") +
                  ", so that no experiment can hold it: " + place + "; rename it");
}

// Returns the experiment's name: the last word of the data's place.
std::string name_for(const std::string& target) {
  constexpr size_t kLongest = 128;
  auto place = fs::absolute(target).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  auto name = place.stem().string();
  while (name.starts_with('.')) name.erase(0, 1);
  return name.empty() || name.size() > kLongest ? "experiment" : name;
}

int64_t training_samples(const Dataset& dataset) {
  const auto samples = dataset.size(Split::kTrain);
  if (samples < 4) throw UserError(grouped(samples) + " training samples are too few to learn from");
  return samples;
}

// Holds out validation samples if the files have none.
void hold_out(FirstExperiment& first, const Dataset& probe) {
  const auto samples = training_samples(probe);
  if (probe.size(Split::kVal) == 0) first.set("val_fraction", samples < 100 ? "0.2" : "0.1");
}

// Returns how many times more training samples the largest class has than the smallest that has any.
double imbalance(const DataSurvey& survey) {
  int64_t least = 0, most = 0;
  for (const auto count : survey.splits.front().per_class) {
    if (count > 0) least = least == 0 ? count : std::min(least, count);
    most = std::max(most, count);
  }
  return least == 0 ? 1 : static_cast<double>(most) / static_cast<double>(least);
}

// A batch makes ten steps an epoch at least, if there are so few samples.
int64_t batch_for(int64_t samples, int64_t most) {
  const auto tenth = static_cast<uint64_t>(std::max<int64_t>(samples / 10, 4));
  return std::min({most, samples, static_cast<int64_t>(std::bit_floor(tenth))});
}

DataSurvey survey_of(FirstExperiment& first) try {
  const auto checked = first.opened();
  auto survey = survey_data(*checked.dataset, checked.experiment, kNumbersLookedAt);
  if (survey.spec.classes == 1)
    throw UserError("all samples are of one class" +
                    (survey.spec.class_names.empty() ? "" : ", " + survey.spec.class_names.front()) +
                    "; expected two at least: there is nothing to distinguish");
  if (std::ranges::find(survey.splits, Split::kVal, &SplitSurvey::split) != survey.splits.end()) first.set("val");
  return survey;
} catch (const FromPlugin& error) {
  throw UserError(error.problem);
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// As many epochs as make a thousand steps, if there are so few samples; and a quarter of these before it stops early.
void set_training(FirstExperiment& first, const DataSurvey& survey) {
  constexpr int64_t kFewSteps = 1000, kEpochs = 10, kMostEpochs = 60;
  const auto samples = survey.splits.front().samples;
  const auto batch = batch_for(samples, kBatch);
  const auto epochs = std::clamp(kFewSteps * batch / std::max<int64_t>(1, samples), kEpochs, kMostEpochs);
  first.set("epochs", std::to_string(epochs));
  first.set("batch", std::to_string(batch));
  first.set("patience", std::to_string(std::max<int64_t>(3, epochs / 4)));
  if (imbalance(survey) >= kUneven) first.set("uneven");
}

// Returns whether some samples are pictures with the same number in all channels.
bool is_grey(const Dataset& probe) {
  const auto pixels = probe.to_image(probe.get(Split::kTrain, spread_numbers(probe.size(Split::kTrain), 16)).input);
  return pixels.defined() && pixels.size(1) == 3 && at::equal(pixels.select(1, 0), pixels.select(1, 1)) &&
         at::equal(pixels.select(1, 1), pixels.select(1, 2));
}

// Colours are photographs, which a network learns better if it never sees the same pixels twice; grey pictures may be
// letters or X-rays, whose sides are not alike.
DataSurvey photos(FirstExperiment& first, const FoundData& found) {
  constexpr int64_t kLargestSize = 224;  // of ImageNet's networks
  constexpr int64_t kSmall = 64;  // a network of two convolutions learns such quickly; larger are multiples of 32
  const auto side = found.side.value_or(kLargestSize),
             size = side <= kSmall ? side : std::min(kLargestSize, side / 32 * 32);
  first.set_paths("root", {found.folder});
  if (!found.list.empty()) first.set_paths("list", {found.list});
  first.set("size", std::to_string(size));
  first.set(size <= kSmall ? "small" : "large");
  const auto probe = first.opened({"dataset.size=32"}).dataset;
  hold_out(first, *probe);
  const bool grey = is_grey(*probe);
  if (grey) first.set("channels", "1");
  if (!grey) first.set("flip");
  const bool asks_for_crops = first.is_asked_for("crop_scale") || first.is_asked_for("crop_padding");
  if (!grey && !asks_for_crops)
    first.set(size > kSmall ? "crop_scale" : "crop_padding", size > kSmall ? "0.35, 1" : "4");
  auto survey = survey_of(first);
  set_training(first, survey);
  return survey;
}

// Gives each column the mean 0 and the deviation 1 over the training samples alone, as they are once validation samples
// are held out. A column that is the same everywhere stays as it is, but for its mean.
void standardize(FirstExperiment& first) {
  constexpr size_t kMostColumns = 1000;  // of which an experiment can list the means
  for (const auto* option : {"mean", "std", "scale", "symbols"})
    if (first.is_asked_for(option)) return;
  std::string means, deviations;
  const auto columns = survey_columns(*first.opened().dataset, kNumbersLookedAt);
  if (columns.size() > kMostColumns) return;
  for (const auto& column : columns) {
    means += (means.empty() ? "" : ", ") + number_text(column.mean);
    deviations += (deviations.empty() ? "" : ", ") + (column.std > 0 ? number_text(column.std) : "1");
  }
  first.set("mean", means);
  first.set("std", deviations);
}

DataSurvey table(FirstExperiment& first, const fs::path& arrays) {
  const auto folder = fs::absolute(arrays).lexically_normal();
  first.set_paths("train", {folder / "train.safetensors"});
  if (fs::exists(folder / "classes.json")) first.set_paths("class_names", {folder / "classes.json"});
  first.set("classes");
  const auto probe = first.opened().dataset;
  hold_out(first, *probe);
  if (probe->spec().classes == 0) {
    first.leave_out("classes");
    first.set("values");
  }
  standardize(first);
  auto survey = survey_of(first);
  set_training(first, survey);
  return survey;
}

DataSurvey text(FirstExperiment& first, const FoundData& found) {
  constexpr int64_t kContext = 128, kMostWarmup = 100, kSamplesOfAWarmupStep = 16;
  first.set_paths("file", found.texts);
  const auto symbols = training_samples(*first.opened({"dataset.context=1"}).dataset);
  first.set("context", std::to_string(std::clamp<int64_t>(symbols / 32, 1, kContext)));
  auto survey = survey_of(first);
  const auto samples = survey.splits.front().samples;
  first.set("batch", std::to_string(batch_for(samples, kTextBatch)));
  first.set("warmup", std::to_string(std::clamp<int64_t>(samples / kSamplesOfAWarmupStep, 1, kMostWarmup)));
  return survey;
}

// Says what has been found and written.
void print_findings(const std::string& file, const DataSurvey& survey) {
  std::cout << data_text(survey);
  if (const auto times = survey.splits.front().is_text() ? 1 : imbalance(survey); times >= 2)
    std::cout << wrapped(log::text("The largest class has ", std::round(times * 10) / 10,
                                   " times as many training samples as the smallest."),
                         0, 2)
              << "\n";
  std::cout << "\n"
            << file << " is written. Next: ddprun data " << shell_word(file) << "; ddprun " << shell_word(file) << "\n";
}

}  // namespace

int init(const Arguments& arguments) {
  const auto name = name_for(arguments.target), file = arguments.out.empty() ? name + ".yaml" : arguments.out;
  require_text(fs::absolute(arguments.target).string());
  require_text(file);
  if (is_table(arguments.target)) {
    FirstExperiment first(kTableExperiment, file, name, arguments.overrides);
    const fs::path beside(file);
    TableArrays arrays(arguments, beside.parent_path() / (beside.stem().string() + "_arrays"));
    const auto survey = table(first, arrays.folder());
    first.write();
    arrays.keep();
    std::cout << arrays.account();
    print_findings(file, survey);
    return kExitDone;
  }
  if (!arguments.target_column.empty() || !arguments.input_columns.empty() || !arguments.task.empty() ||
      arguments.drop_missing)
    throw UserError(arguments.target +
                    ": --target, --input, --task and --drop-missing are for a table, a .csv, .tsv or .parquet file");
  const auto found = find_data(arguments.target);
  const bool are_photos = found.texts.empty();
  FirstExperiment first(are_photos ? kPhotosExperiment : kTextExperiment, file, name, arguments.overrides);
  const auto survey = are_photos ? photos(first, found) : text(first, found);
  first.write();
  print_findings(file, survey);
  return kExitDone;
}

}  // namespace ddprun
