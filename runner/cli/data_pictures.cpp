// SPDX-License-Identifier: MIT
#include "cli/data_pictures.h"

#include "base/log.h"
#include "base/terminal.h"
#include "data/checked_split.h"
#include "data/sample_order.h"
#include "metrics/predictions.h"
#include "picture.h"
#include "plugin_host/plugin_call.h"
#include "report/page.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kSmallSide = 64;      // pictures up to this side are enlarged, pixel by pixel
constexpr int64_t kLongestSide = 96;    // pixels of a picture on the page
constexpr int64_t kMostPictures = 600;  // pictures on the page
constexpr int64_t kMostGroups = 100;    // classes
constexpr int64_t kViews = 4;           // of a sample that training augments
// Limits the samples searched for classes, if only the samples have the labels, and the numbers in their inputs.
constexpr int64_t kMostSearched = 400, kSearchedNumbers = 20'000'000;
constexpr int64_t kRows = 24, kValues = 16, kSymbols = 200;  // shown of samples that are not pictures

struct Group {
  int64_t label = -1;  // none
  std::vector<int64_t> numbers;
};

// Returns the first samples of each class, in the order of the first training epoch.
std::vector<Group> groups_of(const Dataset& dataset, const DataSpec& spec, uint64_t seed, int64_t each) {
  auto order = epoch_order(seed, 0, dataset.size(Split::kTrain));
  auto labels = known_labels(dataset, Split::kTrain);
  if (!labels.defined() && spec.classes > 0) {
    const auto room = kSearchedNumbers / std::max<int64_t>(1, c10::multiply_integers(spec.sample_shape));
    order.resize(std::min(order.size(), static_cast<size_t>(std::clamp(room, kRows, kMostSearched))));
    const auto found = CheckedSplit(dataset, Split::kTrain).get(order);
    if (found.target.dim() == 1 && found.target.scalar_type() == at::kLong) {
      labels = at::full({dataset.size(Split::kTrain)}, -1, at::kLong);
      labels.index_copy_(0, found.index, found.target);
    }
  }
  if (!labels.defined()) {
    order.resize(std::min<size_t>(order.size(), kRows));
    return {{.numbers = order}};
  }
  const auto* label = labels.const_data_ptr<int64_t>();
  std::map<int64_t, std::vector<int64_t>> by_class;
  for (const auto number : order) {
    auto& chosen = by_class[label[number]];
    if (static_cast<int64_t>(chosen.size()) < each) chosen.push_back(number);
  }
  std::vector<Group> groups;
  for (auto& [one, numbers] : by_class) {
    if (static_cast<int64_t>(groups.size()) < kMostGroups) groups.push_back({one, std::move(numbers)});
  }
  return groups;
}

// Returns [B, C, H, W] bytes of at most kLongestSide, each the mean of the pixels it replaces; undefined if there are
// no images.
at::Tensor pictures_of(const Dataset& dataset, const at::Tensor& input) {
  const auto images = in_plugin({"dataset", "to_image"}, [&] { return dataset.to_image(input); });
  if (!images.defined()) return images;
  const auto longest = std::max(images.size(2), images.size(3));
  if (longest <= kLongestSide) return images;
  const auto scaled = [&](int64_t side) { return std::max<int64_t>(1, side * kLongestSide / longest); };
  return at::adaptive_avg_pool2d(images.to(at::kFloat), {scaled(images.size(2)), scaled(images.size(3))})
      .round()
      .to(at::kByte);
}

std::string uri_of(const at::Tensor& pictures, int64_t row) {
  return "data:image/png;base64," + base64(encode_png(image_of(pictures, row)));
}

// `epochs` are those in which training sees them.
Json shown_pictures(const Dataset& dataset, const Batch& batch, uint64_t seed, const std::vector<int64_t>& epochs) {
  const auto stored = pictures_of(dataset, batch.input);
  std::vector<at::Tensor> seen;
  for (const auto epoch : epochs)
    seen.push_back(pictures_of(dataset, augmented(dataset, batch, {.seed = seed, .epoch = epoch}).input));
  Json samples = Json::array();
  for (int64_t at = 0; at < batch.size(); ++at) {
    Json sample{{"id", batch.index[at].item<int64_t>()}, {"stored", uri_of(stored, at)}, {"views", Json::array()}};
    for (const auto& pictures : seen) {
      if (pictures.defined()) sample["views"].push_back(uri_of(pictures, at));
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::string values_text(const at::Tensor& values) {
  const auto flat = values.flatten().to(at::kDouble);
  std::string text;
  for (int64_t i = 0; i < std::min(flat.numel(), kValues); ++i) {
    char one[32];
    std::snprintf(one, sizeof one, "%.4g", flat[i].item<double>());
    text += (i == 0 ? "" : ", ") + std::string(one);
  }
  return flat.numel() > kValues ? text + " ..." : text;
}

// Returns the symbols by their names: as text, if they are characters.
std::string symbols_text(const at::Tensor& symbols, const std::vector<std::string>& names) {
  const auto flat = symbols.flatten();
  std::string text;
  for (int64_t i = 0; i < std::min(flat.numel(), kSymbols); ++i) {
    const auto symbol = flat[i].item<int64_t>();
    const bool named = symbol >= 0 && symbol < static_cast<int64_t>(names.size());
    const auto name = named ? names[static_cast<size_t>(symbol)] : std::to_string(symbol);
    const bool single = name.size() == 1 || (!name.empty() && (name[0] & 0x80) != 0);
    text += name == "space" ? " " : single ? name : "[" + name + "]";
  }
  return flat.numel() > kSymbols ? text + " ..." : text;
}

// Returns the class's name, or the values.
std::string target_text(const DataSpec& spec, const at::Tensor& target, bool symbols) {
  if (spec.classes > 0 && target.numel() == 1 && target.scalar_type() == at::kLong)
    return class_names(spec, spec.classes).at(static_cast<size_t>(target.item<int64_t>()));
  return symbols ? symbols_text(target, spec.class_names) : values_text(target);
}

Json shown_rows(const DataSpec& spec, const Batch& batch) {
  const bool symbols = batch.input.scalar_type() == at::kLong;
  Json rows = Json::array();
  for (int64_t row = 0; row < batch.size(); ++row) {
    const auto input = batch.input[row];
    rows.push_back({{"id", batch.index[row].item<int64_t>()},
                    {"input", symbols ? symbols_text(input, spec.class_names) : values_text(input)},
                    {"target", target_text(spec, batch.target[row], symbols)}});
  }
  return rows;
}

bool are_pictures(const Dataset& dataset, const Batch& batch) {
  return batch.input.scalar_type() != at::kLong && pictures_of(dataset, batch.input).defined();
}

Json picture_groups(const Dataset& dataset, const DataSurvey& survey, uint64_t seed) {
  std::vector<int64_t> epochs(survey.augmentation.changed > 0 ? kViews : 0);
  std::iota(epochs.begin(), epochs.end(), 0);
  const auto views = std::ssize(epochs);
  const auto classes = std::clamp<int64_t>(survey.spec.classes, 1, kMostGroups);
  const auto each = std::clamp<int64_t>(kMostPictures / (classes * (1 + views)), 1, views > 0 ? 6 : 12);
  const auto names = class_names(survey.spec, survey.spec.classes);
  const auto& counts = survey.splits.front().per_class;
  Json groups = Json::array();
  for (const auto& group : groups_of(dataset, survey.spec, seed, each)) {
    const auto label = static_cast<size_t>(group.label);
    const bool has_class = group.label >= 0;
    groups.push_back(
        {{"title", has_class ? names.at(label) : "Samples"},
         {"note", has_class && label < counts.size() ? grouped(counts[label]) + " samples" : ""},
         {"samples", shown_pictures(dataset, CheckedSplit(dataset, Split::kTrain).get(group.numbers), seed, epochs)}});
  }
  return groups;
}

Json samples_in(const Dataset& dataset, Split split, const std::vector<int64_t>& numbers, uint64_t seed,
                const std::vector<int64_t>& epochs) {
  if (numbers.empty()) return Json::array();
  const auto spec = in_plugin({"dataset", "spec"}, [&] { return dataset.spec(); });
  const auto batch = CheckedSplit(dataset, split).get(numbers);
  if (!are_pictures(dataset, batch)) return shown_rows(spec, batch);
  auto samples = shown_pictures(dataset, batch, seed, epochs);
  for (size_t row = 0; row < samples.size(); ++row)
    samples[row]["target"] = target_text(spec, batch.target[static_cast<int64_t>(row)], false);
  return samples;
}

}  // namespace

Json samples_section(const Dataset& dataset, const DataSurvey& survey, uint64_t seed) {
  Json section{{"id", "samples"},
               {"title", "Training samples"},
               {"text", Json::array({"Augmentation: " + augmentation_text(survey.augmentation) + "."})}};
  auto order = epoch_order(seed, 0, dataset.size(Split::kTrain));
  order.resize(std::min<size_t>(order.size(), kRows));
  const CheckedSplit split(dataset, Split::kTrain);
  if (!are_pictures(dataset, split.get(std::span(order).first(1)))) {
    section["samples"] = shown_rows(survey.spec, split.get(order));
    return section;
  }
  section["groups"] = picture_groups(dataset, survey, seed);
  section["large"] = std::ranges::max(survey.spec.sample_shape) > kSmallSide;
  if (survey.augmentation.changed > 0)
    section["text"].push_back(
        "The first picture of each row is the sample as it is stored; the others are what the first epochs see in its "
        "place.");
  if (const auto shown = section["groups"].size(); static_cast<int64_t>(shown) < survey.spec.classes)
    section["text"].push_back(log::text("Shown are ", shown, " of ", grouped(survey.spec.classes), " classes."));
  return section;
}

Json shown_samples(const Dataset& dataset, const std::vector<int64_t>& numbers, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> epochs;
  if (!numbers.empty() && survey_augmentation(dataset, seed).changed > 0) epochs.push_back(epoch);
  return samples_in(dataset, Split::kTrain, numbers, seed, epochs);
}

Json stored_samples(const Dataset& dataset, Split split, const std::vector<int64_t>& numbers) {
  return samples_in(dataset, split, numbers, /*seed=*/0, {});
}

}  // namespace ddprun
