// SPDX-License-Identifier: MIT
#include "data/data_pictures.h"

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
#include <string>
#include <vector>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kLongestSide = 96;    // pixels of a picture on the page
constexpr int64_t kMostPictures = 600;  // pictures on the page
constexpr int64_t kMostGroups = 100;    // classes
constexpr int64_t kViews = 4;           // of a sample that training augments
// Limits the samples searched for classes, if only the samples tell the labels, and the numbers in their inputs.
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

Json shown_group(const Dataset& dataset, const Group& group, uint64_t seed, int64_t views) {
  const auto batch = CheckedSplit(dataset, Split::kTrain).get(group.numbers);
  const auto stored = pictures_of(dataset, batch.input);
  std::vector<at::Tensor> seen;
  for (int64_t epoch = 0; epoch < views; ++epoch)
    seen.push_back(pictures_of(dataset, augmented(dataset, batch, {.seed = seed, .epoch = epoch}).input));
  Json samples = Json::array();
  for (size_t row = 0; row < group.numbers.size(); ++row) {
    const auto at = static_cast<int64_t>(row);
    Json sample{{"id", group.numbers[row]}, {"stored", uri_of(stored, at)}, {"views", Json::array()}};
    for (const auto& pictures : seen) {
      if (pictures.defined()) sample["views"].push_back(uri_of(pictures, at));
    }
    samples.push_back(std::move(sample));
  }
  return {{"label", group.label}, {"samples", std::move(samples)}};
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

Json shown_rows(const Dataset& dataset, const DataSpec& spec, const std::vector<int64_t>& numbers) {
  const auto batch = CheckedSplit(dataset, Split::kTrain).get(numbers);
  const bool symbols = batch.input.scalar_type() == at::kLong;
  const auto text = [&](const at::Tensor& values) {
    return symbols ? symbols_text(values, spec.class_names) : values_text(values);
  };
  Json rows = Json::array();
  for (int64_t row = 0; row < batch.size(); ++row) {
    const auto target = batch.target[row];
    const bool is_class = spec.classes > 0 && target.numel() == 1 && target.scalar_type() == at::kLong;
    rows.push_back(
        {{"id", numbers[static_cast<size_t>(row)]},
         {"values", text(batch.input[row])},
         {"target",
          is_class ? class_names(spec, spec.classes).at(static_cast<size_t>(target.item<int64_t>())) : text(target)}});
  }
  return {{"label", -1}, {"samples", std::move(rows)}};
}

}  // namespace

Json shown_samples(const Dataset& dataset, const DataSurvey& survey, uint64_t seed) {
  const auto& spec = survey.spec;
  auto order = epoch_order(seed, 0, dataset.size(Split::kTrain));
  order.resize(std::min<size_t>(order.size(), kRows));
  const auto one = CheckedSplit(dataset, Split::kTrain).get(std::span(order).first(1));
  if (one.input.scalar_type() == at::kLong || !pictures_of(dataset, one.input).defined())
    return Json::array({shown_rows(dataset, spec, order)});
  const auto views = survey.augmentation.changed > 0 ? kViews : 0;
  const auto classes = std::clamp<int64_t>(spec.classes, 1, kMostGroups);
  const auto each = std::clamp<int64_t>(kMostPictures / (classes * (1 + views)), 1, views > 0 ? 6 : 12);
  Json shown = Json::array();
  for (const auto& group : groups_of(dataset, spec, seed, each))
    shown.push_back(shown_group(dataset, group, seed, views));
  return shown;
}

}  // namespace ddprun
