// SPDX-License-Identifier: MIT
#include "data/data_survey.h"

#include "data/checked_split.h"
#include "data/loader.h"
#include "data/sample_order.h"
#include "plugin_host/plugin_call.h"

#include <ddprun/image_store.h>
#include <ddprun/objective.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace ddprun {
namespace {

constexpr int64_t kFewSamples = 64;  // examined whatever they cost
constexpr int64_t kBatch = 64;
constexpr int64_t kAugmented = 16;
constexpr size_t kTableRows = 4096;

// Returns "float32", the name in numpy and PyTorch.
std::string type_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return "float32";
    case at::kDouble: return "float64";
    case at::kLong: return "int64";
    case at::kInt: return "int32";
    case at::kByte: return "uint8";
    case at::kBool: return "bool";
    default: return c10::toString(type);
  }
}

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
    wide.sub_(origin_);
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
void add_classes(const at::Tensor& labels, SplitSurvey& found) {
  const auto flat = labels.flatten().contiguous();
  const auto* first = flat.const_data_ptr<int64_t>();
  auto& per_class = found.per_class;
  for (int64_t i = 0; i < flat.numel(); ++i) {
    if (first[i] >= 0 && first[i] < static_cast<int64_t>(per_class.size())) ++per_class[static_cast<size_t>(first[i])];
    found.ignored += first[i] == kIgnoredClass ? 1 : 0;
  }
}

int64_t numbers_of_sample(const DataSpec& spec) {
  int64_t numbers = 1;
  for (const auto size : spec.sample_shape) numbers *= std::max<int64_t>(size, 1);
  return numbers;
}

class SplitCount {
 public:
  SplitCount(const Dataset& dataset, const DataSpec& spec, Split split, int64_t size)
      : dataset_(dataset), spec_(spec), labels_(known_labels(dataset, split)) {
    found_ = {.split = split, .samples = size};
  }

  SplitSurvey look(int64_t most_numbers) {
    const auto most = std::max(kFewSamples, most_numbers / numbers_of_sample(spec_));
    const auto numbers = spread_numbers(found_.samples, most);
    const CheckedSplit split(dataset_, found_.split);
    found_.looked_at = static_cast<int64_t>(numbers.size());
    for (size_t begin = 0; begin < numbers.size(); begin += kBatch) {
      const auto end = std::min(begin + kBatch, numbers.size());
      take(split.get(std::span(numbers).subspan(begin, end - begin)));
    }
    if (labels_.defined()) {
      found_.per_class.resize(static_cast<size_t>(spec_.classes));
      add_classes(labels_, found_);
    }
    if (!found_.per_class.empty()) found_.counted = labels_.defined() ? found_.samples : found_.looked_at;
    found_.input = input_.range();
    found_.target = target_.range();
    for (auto& extra : found_.extras) extra.range = extras_[extra.name].range();
    return found_;
  }

 private:
  void take(const Batch& batch) {
    found_.input_type = type_name(batch.input.scalar_type());
    found_.target_type = type_name(batch.target.scalar_type());
    found_.target_shape = batch.target.sizes().slice(1).vec();
    input_.add(batch.input);
    found_.extras.clear();
    for (const auto& [name, extra] : batch.extras) {
      found_.extras.push_back({.name = name, .type = type_name(extra.scalar_type())});
      extras_[name].add(extra);
    }
    const bool classes = spec_.classes > 0 && batch.target.scalar_type() == at::kLong;
    if (!classes) return target_.add(batch.target);
    if (labels_.defined()) return;
    found_.per_class.resize(static_cast<size_t>(spec_.classes));
    add_classes(batch.target, found_);
  }

  const Dataset& dataset_;
  const DataSpec& spec_;
  at::Tensor labels_;
  SplitSurvey found_;
  RangeSums input_, target_;
  std::map<std::string, RangeSums> extras_;
};

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
    if (size > 0) splits.push_back(SplitCount(dataset, spec, split, size).look(most_numbers));
  }
  if (!splits.empty() && splits.front().split == Split::kTrain) splits.front().scales = doubt_of_scales(dataset);
  return splits;
}

std::vector<NumberRange> survey_columns(const Dataset& dataset) {
  constexpr int64_t kMostNumbers = 20'000'000;
  const auto spec = in_plugin({"dataset", "spec"}, [&] { return dataset.spec(); });
  const auto numbers =
      spread_numbers(dataset.size(Split::kTrain), std::max(kFewSamples, kMostNumbers / numbers_of_sample(spec)));
  const CheckedSplit split(dataset, Split::kTrain);
  std::vector<RangeSums> columns(static_cast<size_t>(spec.sample_shape.at(0)));
  for (size_t begin = 0; begin < numbers.size(); begin += kTableRows) {
    const auto end = std::min(begin + kTableRows, numbers.size());
    const auto rows = split.get(std::span(numbers).subspan(begin, end - begin)).input;
    for (size_t i = 0; i < columns.size(); ++i) columns[i].add(rows.select(1, static_cast<int64_t>(i)));
  }
  std::vector<NumberRange> ranges;
  for (const auto& column : columns) ranges.push_back(column.range());
  return ranges;
}

namespace {

std::string doubt_of_columns(const at::Tensor& inputs) {
  constexpr double kTooFarApart = 30;
  if (inputs.dim() != 2 || inputs.size(0) < 2 || inputs.size(1) < 2 || !inputs.is_floating_point()) return "";
  const auto deviations = inputs.to(at::kDouble).std(0, /*unbiased=*/false).nan_to_num().contiguous();
  const auto* first = deviations.const_data_ptr<double>();
  int64_t least = -1, most = -1;
  for (int64_t i = 0; i < deviations.numel(); ++i) {
    if (first[i] <= 0 || !std::isfinite(first[i])) continue;  // a column that is the same everywhere has no scale
    if (least < 0 || first[i] < first[least]) least = i;
    if (most < 0 || first[i] > first[most]) most = i;
  }
  if (least < 0 || first[most] < kTooFarApart * first[least] || first[most] < 2) return "";
  char text[200];
  std::snprintf(
      text, sizeof text,
      "the columns have very different scales: the deviation of column %lld, counted from 0, is %.3g, and that "
      "of column %lld %.3g",
      static_cast<long long>(most), first[most], static_cast<long long>(least), first[least]);
  return text + std::string(
                    "; a network learns badly from that. Give a mean and a deviation for each column (dataset "
                    "tensors: mean and std; `ddprun init` writes them)");
}

}  // namespace

std::string doubt_of_scales(const Dataset& dataset) {
  constexpr int64_t kManySamples = 1000, kMostNumbers = 2'000'000;
  const auto spec = in_plugin({"dataset", "spec"}, [&] { return dataset.spec(); });
  const auto size = in_plugin({"dataset", "size"}, [&] { return dataset.size(Split::kTrain); });
  if (spec.sample_shape.size() != 1 || size == 0) return "";
  const CheckedSplit split(dataset, Split::kTrain);
  const auto doubt_of = [&](int64_t samples) {
    return doubt_of_columns(split.get(spread_numbers(size, samples)).input);
  };
  const auto many = std::max(kFewSamples, std::min(kManySamples, kMostNumbers / numbers_of_sample(spec)));
  return doubt_of(kFewSamples).empty() ? "" : doubt_of(many);
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
