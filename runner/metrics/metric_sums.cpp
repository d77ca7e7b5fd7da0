// SPDX-License-Identifier: MIT
#include "metrics/metric_sums.h"

#include "metrics/packed.h"
#include "shown_text.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

namespace ddprun {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

// Reads a scalar; a float64 on the CPU without the microsecond of the dispatcher.
double value_of(const at::Tensor& number) {
  const bool at_hand = number.is_cpu() && number.scalar_type() == at::kDouble;
  return at_hand ? *number.const_data_ptr<double>() : number.item<double>();
}

// Returns the names that all ranks have; a rank without a batch has none of its own.
std::vector<std::string> agreed_names(const std::string& mine, Communicator& communicator) {
  std::string names;
  for (const auto& theirs : communicator.gather_texts(mine)) {
    if (names.empty()) names = theirs;
    if (!theirs.empty() && theirs != names) {
      throw UserError(
          "model: the ranks report different metrics from step(): it must return the same names in the same "
          "order for every batch");
    }
  }
  return lines_of(names);
}

// Marks a name that is exponentiated, when names are agreed on: metrics' names have no control characters.
const std::string kExponential = "\t";

MetricTotal without_numbers(const std::string& agreed) {
  const bool exponential = agreed.starts_with(kExponential);
  return {.name = exponential ? agreed.substr(kExponential.size()) : agreed, .exponential = exponential};
}

}  // namespace

double MetricTotal::value() const {
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  const double mean = sum / static_cast<double>(count);
  return exponential ? std::exp(mean) : mean;
}

at::Tensor zero_if_none_counts(const at::Tensor& number, const at::Tensor& counted) {
  return number.defined() && counted.defined() ? at::where(counted.gt(0), number, 0) : number;
}

// What is 0 where nothing counts is left to who reads a single step's numbers on the host: read().
at::Tensor MetricSums::Entry::sum() const {
  auto sum = value.to(at::kDouble);
  if (is_mean) sum = sum * counted;
  if (factor != 1) sum = sum * factor;
  return zero_if_none_counts(sum, counted);
}

// Adds out of place, since a step's value may lie where the next one is written.
void MetricSums::add(const Entry& entry) {
  const auto sum = std::ranges::find(entries_, entry.name, &Entry::name);
  if (sum == entries_.end()) {
    entries_.push_back(entry);
    if (entry.is_empty()) entries_.back().value = at::zeros({}, at::kDouble);
  } else if (!entry.is_empty()) {
    const auto device = entry.value.device();
    sum->value = sum->sum().to(device).add(entry.counted.defined() ? entry.sum() : entry.value, entry.factor);
    sum->factor = 1;
    sum->is_mean = false;
    if (entry.counted.defined()) {
      sum->counted = sum->counted.defined() ? sum->counted.to(device) + entry.counted : entry.counted + sum->count;
    } else if (sum->counted.defined()) {
      sum->counted = sum->counted + entry.count;
    }
    sum->count += entry.count;
  }
}

bool MetricSums::knows(const std::string& name) const {
  return name != "loss" && std::ranges::find(entries_, name, &Entry::name) != entries_.end();
}

void MetricSums::add(const Step& step, int64_t samples) {
  const auto loss = step.loss.detach();
  const auto counted = samples > 0 ? step.counted : at::Tensor();
  if (counted.defined()) {
    add({.name = "loss", .value = loss, .counted = counted, .is_mean = true});
  } else {
    add({.name = "loss", .value = loss, .factor = static_cast<double>(samples), .count = samples});
  }
  for (const auto& metric : step.metrics) {
    if (!knows(metric.name)) require_metric_name(metric.name);
    const bool by_device = metric.counted.defined();
    add({.name = metric.name,
         .value = metric.sum.detach(),
         .count = samples > 0 && !by_device ? metric.count : 0,
         .counted = samples > 0 ? metric.counted : at::Tensor(),
         .exponential = metric.exponential});
  }
}

void MetricSums::add(const MetricSums& others) {
  for (const auto& entry : others.entries_) add(entry);
}

at::Tensor MetricSums::loss() const {
  return entries_.empty() || entries_.front().is_empty() ? at::Tensor() : entries_.front().value;
}

at::Tensor MetricSums::mean_loss() const {
  if (!loss().defined()) return {};
  const auto& entry = entries_.front();
  if (entry.is_mean) return entry.value;
  if (entry.counted.defined()) return entry.value / entry.counted.clamp_min(1);
  const auto count = static_cast<double>(entry.count);
  return entry.factor == count ? entry.value : entry.value * (entry.factor / count);
}

// Returns those of the values, then those of what counts.
std::vector<at::Tensor*> MetricSums::places(c10::Device device) {
  std::vector<at::Tensor*> places;
  for (auto& entry : entries_) {
    if (entry.value.device() == device) places.push_back(&entry.value);
  }
  for (auto& entry : entries_) {
    if (entry.counted.defined() && entry.counted.device() == device) places.push_back(&entry.counted);
  }
  return places;
}

std::vector<at::Tensor> MetricSums::scalars(c10::Device device) const {
  auto copy = *this;
  std::vector<at::Tensor> scalars;
  for (const auto* place : copy.places(device)) scalars.push_back(*place);
  return scalars;
}

MetricSums MetricSums::with(const at::Tensor& scalars, c10::Device device) const {
  auto result = *this;
  const auto places = result.places(device);
  for (size_t i = 0; i < places.size(); ++i) *places[i] = scalars[static_cast<int64_t>(i)];
  return result;
}

bool MetricSums::alike(const MetricSums& others) const {
  return std::ranges::equal(entries_, others.entries_, [](const Entry& a, const Entry& b) {
    return a.name == b.name && a.count == b.count && a.factor == b.factor && a.exponential == b.exponential &&
           a.is_mean == b.is_mean && a.counted.defined() == b.counted.defined();
  });
}

std::string MetricSums::made_beside(c10::Device device) const {
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
    const bool count_is_beside = entry.counted.defined() && entry.counted.device() != device;
    return count_is_beside || (!entry.is_empty() && entry.value.device() != device);
  });
  return found == entries_.end() ? "" : found->name;
}

std::vector<MetricTotal> MetricSums::totals(Communicator& communicator) const {
  std::vector<MetricTotal> totals;
  if (!communicator.is_distributed()) {  // nothing to agree on or to add up, so a row per step is cheap
    const auto found = read();
    for (size_t i = 0; i < found.size(); ++i)
      totals.push_back({entries_[i].name, found[i].sum, static_cast<int64_t>(found[i].count), entries_[i].exponential});
    return totals;
  }
  std::string names;
  for (const auto& entry : entries_) names += (entry.exponential ? kExponential + entry.name : entry.name) + "\n";
  for (const auto& name : agreed_names(names, communicator)) totals.push_back(without_numbers(name));

  auto sums = entries_.empty() ? numbers_of(totals) : numbers();
  communicator.sum(sums);
  const auto view = sums.accessor<double, 2>();
  for (size_t i = 0; i < totals.size(); ++i) {
    totals[i].sum = view[0][static_cast<int64_t>(i)];
    totals[i].count = static_cast<int64_t>(view[1][static_cast<int64_t>(i)]);  // exact below 2^53
  }
  return totals;
}

// Reads all numbers with one wait for the GPU that has some of them.
std::vector<MetricSums::Number> MetricSums::read() const {
  const auto is_elsewhere = [](const at::Tensor& tensor) { return tensor.defined() && !tensor.is_cpu(); };
  at::Tensor copied;
  for (const auto& entry : entries_) {
    if (is_elsewhere(entry.value) || is_elsewhere(entry.counted)) {
      copied = packed(scalars(is_elsewhere(entry.value) ? entry.value.device() : entry.counted.device())).cpu();
      break;
    }
  }
  const double* next = copied.defined() ? copied.const_data_ptr<double>() : nullptr;
  const auto number = [&next](const at::Tensor& tensor) { return tensor.is_cpu() ? value_of(tensor) : *next++; };
  std::vector<Number> numbers;
  numbers.reserve(entries_.size());
  for (const auto& entry : entries_)
    numbers.push_back({.sum = entry.factor * number(entry.value), .count = static_cast<double>(entry.count)});
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].counted.defined()) continue;
    auto& [sum, count] = numbers[i];
    count = number(entries_[i].counted);
    if (entries_[i].is_mean) sum *= count;
    if (!(count > 0)) sum = 0;
  }
  return numbers;
}

at::Tensor MetricSums::numbers() const {
  auto numbers = at::zeros({2, static_cast<int64_t>(entries_.size())}, at::kDouble);
  auto view = numbers.accessor<double, 2>();
  const auto found = read();
  for (size_t i = 0; i < found.size(); ++i) {
    view[0][static_cast<int64_t>(i)] = found[i].sum;
    view[1][static_cast<int64_t>(i)] = found[i].count;
  }
  return numbers;
}

void MetricSums::reset() { entries_.clear(); }

void MetricSums::reset(const std::vector<MetricTotal>& names, const at::Tensor& numbers) {
  entries_.clear();
  for (size_t i = 0; i < names.size(); ++i) {
    const auto column = static_cast<int64_t>(i);
    entries_.push_back({.name = names[i].name,
                        .value = numbers[0][column].clone(),
                        .count = static_cast<int64_t>(numbers[1][column].item<double>()),
                        .exponential = names[i].exponential});
  }
}

void add(std::vector<MetricTotal>& totals, const std::vector<MetricTotal>& more) {
  for (const auto& total : more) {
    const auto at = std::ranges::find(totals, total.name, &MetricTotal::name);
    if (at == totals.end()) {
      totals.push_back(total);
    } else {
      at->sum += total.sum;
      at->count += total.count;
    }
  }
}

at::Tensor numbers_of(const std::vector<MetricTotal>& totals) {
  auto numbers = at::zeros({2, static_cast<int64_t>(totals.size())}, at::kDouble);
  auto view = numbers.accessor<double, 2>();
  for (size_t i = 0; i < totals.size(); ++i) {
    view[0][static_cast<int64_t>(i)] = totals[i].sum;
    view[1][static_cast<int64_t>(i)] = static_cast<double>(totals[i].count);
  }
  return numbers;
}

NamedValues values_of(const std::vector<MetricTotal>& totals, const std::string& split) {
  NamedValues values;
  values.reserve(totals.size() + 8);  // a row's other values
  for (const auto& total : totals)
    values.emplace_back(split.empty() ? total.name : split + "/" + total.name, total.value());
  return values;
}

namespace {

constexpr auto kTaken =
    std::to_array<std::string_view>({"loss", "time", "attempt", "split", "epoch", "step", "samples", "nonfinite", "lr",
                                     "samples_per_second", "grad_norm", "loss_scale", "overflows", "skipped_steps"});
constexpr size_t kLongest = 200;

}  // namespace

void require_metric_name(const std::string& name, const std::string& whose) {
  const auto refuse = [&](const std::string& problem) { throw UserError(whose + " " + problem); };
  if (name.empty()) refuse("has an empty name");
  if (!is_utf8(name)) refuse("has a name that is not UTF-8");
  if (name.size() > kLongest)
    refuse("has a name of " + std::to_string(name.size()) + " bytes; at most " + std::to_string(kLongest) +
           " are allowed: " + name.substr(0, 20) + "...");
  if (std::ranges::any_of(name, [](unsigned char byte) { return byte < 0x20 || byte == 0x7F; }))
    refuse("has a name with a control character, such as a newline: " + nlohmann::json(name).dump());
  if (std::ranges::find(kTaken, name) == kTaken.end()) return;
  std::string taken;
  for (const auto other : kTaken) taken += (taken.empty() ? "" : ", ") + std::string(other);
  refuse("is called " + name + ", which is reserved; reserved: " + taken);
}

}  // namespace ddprun
