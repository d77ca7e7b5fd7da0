// SPDX-License-Identifier: MIT
#include "data/data_survey.h"

#include "config/experiment.h"
#include "data/account.h"
#include "data/checked_split.h"
#include "data/data_form.h"
#include "data/loader.h"
#include "data/sample_order.h"
#include "plugin_host/plugin_call.h"

#include <ddprun/image_store.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <ranges>

namespace ddprun {
namespace {

constexpr int64_t kFewSamples = 64;  // examined whatever they cost
constexpr size_t kBatch = 64, kTableRows = 4096;
constexpr int64_t kAugmented = 16;

// Sums numbers and the squares of their distances from one of them: squares of the numbers themselves would lose a
// small spread.
class RangeSums {
 public:
  void add(const at::Tensor& numbers) {
    auto wide = numbers.to(at::kDouble).flatten();
    const auto finite = wide.isfinite();
    if (!finite.all().item<bool>()) wide = wide.masked_select(finite);
    range_.not_finite += numbers.numel() - wide.numel();
    if (wide.numel() == 0) return;
    const auto least = wide.min().item<double>(), greatest = wide.max().item<double>();
    if (range_.count == 0) {
      origin_ = range_.least = least;
      range_.greatest = greatest;
    }
    range_.least = std::min(range_.least, least);
    range_.greatest = std::max(range_.greatest, greatest);
    range_.count += wide.numel();
    wide = wide - origin_;
    sum_ += wide.sum().item<double>();
    squares_ += wide.dot(wide).item<double>();
  }

  NumberRange range() const {
    auto range = range_;
    if (range.count == 0) return range;
    const auto count = static_cast<double>(range.count), shift = sum_ / count;
    range.mean = origin_ + shift;
    range.std = std::sqrt(std::max(0.0, squares_ / count - shift * shift));
    return range;
  }

 private:
  NumberRange range_;
  double origin_ = 0, sum_ = 0, squares_ = 0;
};

// Skips labels that are not classes, in a target that an objective or a model reads in its own way.
void count_classes(const at::Tensor& labels, std::vector<int64_t>& per_class) {
  const auto flat = labels.flatten().contiguous();
  const auto* first = flat.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < flat.numel(); ++i)
    if (first[i] >= 0 && first[i] < std::ssize(per_class)) ++per_class[static_cast<size_t>(first[i])];
}

// Calls `take` with batches of samples that are spread evenly over a split, 64 or as many more as have `most_numbers`.
// Returns how many they are.
template <class Take>
int64_t look(const Dataset& dataset, const DataSpec& spec, Split which, int64_t most_numbers, size_t batch,
             const Take& take) {
  const auto each = std::max<int64_t>(1, c10::multiply_integers(spec.sample_shape));
  const auto numbers = spread_numbers(dataset.size(which), std::max(kFewSamples, most_numbers / each));
  const CheckedSplit split(dataset, which);
  for (size_t begin = 0; begin < numbers.size(); begin += batch)
    take(split.get(std::span(numbers).subspan(begin, std::min(batch, numbers.size() - begin))));
  return std::ssize(numbers);
}

SplitSurvey survey_split(const Dataset& dataset, const DataSpec& spec, Split which, int64_t most_numbers) {
  const auto labels = known_labels(dataset, which);
  SplitSurvey found{.split = which, .samples = dataset.size(which)};
  std::vector<int64_t> per_class(static_cast<size_t>(spec.classes));
  std::vector<RangeSums> sums;
  bool has_classes = labels.defined();
  found.looked_at = look(dataset, spec, which, most_numbers, kBatch, [&](const Batch& batch) {
    const auto tensors = batch.tensors();
    const bool is_classes = spec.classes > 0 && batch.target.scalar_type() == at::kLong;
    sums.resize(tensors.size());
    found.parts.clear();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto& [name, tensor] = tensors[i];
      found.parts.push_back({name, std::string(type_name(tensor.scalar_type())), tensor.sizes().slice(1).vec(), {}});
      if (name != "target" || !is_classes) sums[i].add(tensor);
    }
    if (is_classes && !labels.defined()) count_classes(batch.target, per_class);
    has_classes |= is_classes;
  });
  if (labels.defined()) count_classes(labels, per_class);
  if (has_classes) found.per_class = std::move(per_class);
  if (!found.per_class.empty()) found.counted = labels.defined() ? found.samples : found.looked_at;
  for (size_t i = 0; i < sums.size(); ++i) found.parts[i].range = sums[i].range();
  return found;
}

// A NaN is the same as another.
bool are_same(const at::Tensor& one, const at::Tensor& other) {
  return one.sizes() == other.sizes() && one.scalar_type() == other.scalar_type() &&
         at::allclose(one.to(at::kDouble), other.to(at::kDouble), /*rtol=*/0, /*atol=*/0, /*equal_nan=*/true);
}

}  // namespace

Batch augmented(const Dataset& dataset, const Batch& batch, const AugmentKey& key) {
  const CheckedSplit split(dataset, Split::kTrain);
  auto drawn = split.draw({batch.index.const_data_ptr<int64_t>(), static_cast<size_t>(batch.index.numel())}, key);
  drawn.replace_tensors([](const at::Tensor& tensor) { return tensor.clone(); });
  split.augment(drawn, key);
  return drawn;
}

at::Tensor known_labels(const Dataset& dataset, Split split) {
  const auto known = in_plugin({"dataset", "labels"}, [&] {
    auto labels = dataset.labels(split);
    if (labels.defined()) CheckedSplit(dataset, split).check(labels);
    return labels;
  });
  if (known.defined()) return known;
  const auto lent = in_plugin({"dataset", "images"}, [&] {
    const auto images = dataset.images(split);
    if (images.store) CheckedSplit(dataset, split).check(*images.store);
    return images;
  });
  return lent.store ? at::tensor(lent.store->labels(), at::kLong) : at::Tensor();
}

std::vector<SplitSurvey> survey_splits(const Dataset& dataset, int64_t most_numbers) {
  const auto spec = in_plugin({"dataset", "spec"}, [&] { return dataset.spec(); });
  std::vector<SplitSurvey> splits;
  for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) {
    const auto size = in_plugin({"dataset", "size"}, [&] { return dataset.size(split); });
    if (size > 0) splits.push_back(survey_split(dataset, spec, split, most_numbers));
  }
  if (!splits.empty() && splits.front().split == Split::kTrain) splits.front().scales = doubt_of_scales(dataset);
  return splits;
}

DataSurvey survey_data(const Dataset& dataset, const Experiment& experiment, int64_t most_numbers) {
  DataSurvey survey{.experiment = experiment.name,
                    .dataset = experiment.dataset.plugin,
                    .spec = in_plugin({"dataset", "spec"}, [&] { return dataset.spec(); }),
                    .splits = survey_splits(dataset, most_numbers),
                    .augmentation = survey_augmentation(dataset, experiment.seed),
                    .account = account_of(dataset)};
  if (survey.augmentation.samples == 0) throw PluginMistake({"dataset", "it has no training samples"});
  return survey;
}

std::vector<NumberRange> survey_columns(const Dataset& dataset, int64_t most_numbers) {
  const auto spec = in_plugin({"dataset", "spec"}, [&] { return dataset.spec(); });
  const auto size = in_plugin({"dataset", "size"}, [&] { return dataset.size(Split::kTrain); });
  if (spec.sample_shape.size() != 1 || size == 0) return {};
  std::vector<RangeSums> sums(static_cast<size_t>(spec.sample_shape.front()));
  look(dataset, spec, Split::kTrain, most_numbers, kTableRows, [&](const Batch& batch) {
    for (size_t i = 0; i < sums.size() && batch.input.is_floating_point(); ++i)
      sums[i].add(batch.input.select(1, static_cast<int64_t>(i)));
  });
  std::vector<NumberRange> columns;
  std::ranges::transform(sums, std::back_inserter(columns), &RangeSums::range);
  return columns;
}

std::string doubt_of_scales(const Dataset& dataset) {
  constexpr double kTooFarApart = 30;
  constexpr int64_t kManySamples = 1000, kMostNumbers = 2'000'000;
  std::string doubt;
  for (const bool first_look : {true, false}) {
    const auto spec = in_plugin({"dataset", "spec"}, [&] { return dataset.spec(); });
    const auto numbers = std::min(kManySamples * c10::multiply_integers(spec.sample_shape), kMostNumbers);
    const auto columns = survey_columns(dataset, first_look ? 0 : numbers);
    // One that is the same everywhere has no scale.
    auto with_scale = columns | std::views::filter([](const NumberRange& column) { return column.std > 0; });
    if (with_scale.empty()) return "";
    const auto least = std::ranges::min_element(with_scale, {}, &NumberRange::std);
    const auto most = std::ranges::max_element(with_scale, {}, &NumberRange::std);
    if (most->std < kTooFarApart * least->std || most->std < 2) return "";
    char text[200];
    std::snprintf(text, sizeof text,
                  "the columns have very different scales: the deviation of column %td, counted from 0, is %.3g, and "
                  "that of column %td %.3g",
                  &*most - columns.data(), most->std, &*least - columns.data(), least->std);
    doubt = text + std::string(
                       "; a network learns badly from that. Give a mean and a deviation for each column (dataset "
                       "tensors: mean and std; `ddprun init` writes them)");
  }
  return doubt;
}

AugmentationSurvey survey_augmentation(const Dataset& dataset, uint64_t seed) {
  const auto size = in_plugin({"dataset", "size"}, [&] { return dataset.size(Split::kTrain); });
  if (size == 0) return {};
  const auto stored = CheckedSplit(dataset, Split::kTrain).get(spread_numbers(size, kAugmented));
  const auto first = augmented(dataset, stored, {.seed = seed, .epoch = 0});
  const auto second = augmented(dataset, stored, {.seed = seed, .epoch = 1});
  AugmentationSurvey found{.samples = stored.size()};
  const auto same = [](const Batch& one, const Batch& other, int64_t row) {
    return std::ranges::equal(one.tensors(), other.tensors(),
                              [&](const auto& a, const auto& b) { return are_same(a.second[row], b.second[row]); });
  };
  for (int64_t row = 0; row < found.samples; ++row) {
    found.changed += same(stored, first, row) ? 0 : 1;
    found.otherwise += same(first, second, row) ? 0 : 1;
  }
  return found;
}

}  // namespace ddprun
