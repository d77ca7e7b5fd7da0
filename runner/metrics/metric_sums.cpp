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

// Reads a scalar; a float64 on the CPU without the microsecond of the dispatcher.
double value_of(const at::Tensor& number) {
  const bool at_hand = number.is_cpu() && number.scalar_type() == at::kDouble;
  return at_hand ? *number.const_data_ptr<double>() : number.item<double>();
}

using Json = nlohmann::json;

constexpr auto kOtherMetrics =
    "model: the ranks report different metrics from step(): it must return the same names in the same order for every "
    "batch; found ";

// Returns [["loss",false],["perplexity",true]]; empty if there are none.
std::string description_of(const std::vector<ExactTotal>& totals) {
  auto described = Json::array();
  for (const auto& total : totals) described.push_back({total.name, total.exponential});
  return totals.empty() ? "" : described.dump();
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

MetricSums::Entry& MetricSums::entry(const std::string& name, bool exponential) {
  const auto known = std::ranges::find(entries_, name, [](const Entry& one) { return one.total.name; });
  if (known != entries_.end()) return *known;
  return entries_.emplace_back(Entry{.total = {.name = name, .exponential = exponential}});
}

void MetricSums::add(const std::string& name, bool exponential, Term term) {
  auto& sum = entry(name, exponential);
  if (!term.is_empty()) sum.terms.push_back(std::move(term));
}

bool MetricSums::knows(const std::string& name) const {
  const auto is_it = [&](const Entry& one) { return one.total.name == name; };
  return name != "loss" && std::ranges::any_of(entries_, is_it);
}

void MetricSums::add(const Step& step, int64_t samples) {
  const auto loss = step.loss.detach();
  const auto counted = samples > 0 ? step.counted : at::Tensor();
  if (counted.defined()) {
    add("loss", false, {.value = loss, .counted = counted, .is_mean = true});
  } else {
    add("loss", false, {.value = loss, .factor = static_cast<double>(samples), .count = samples});
  }
  for (const auto& metric : step.metrics) {
    if (!knows(metric.name)) require_metric_name(metric.name);
    const bool by_device = metric.counted.defined();
    add(metric.name, metric.exponential,
        {.value = metric.sum.detach(),
         .count = samples > 0 && !by_device ? metric.count : 0,
         .counted = samples > 0 ? metric.counted : at::Tensor()});
  }
}

void MetricSums::add(const MetricSums& others) {
  auto more = others;
  more.read();
  for (const auto& [total, terms] : more.entries_) {
    auto& mine = entry(total.name, total.exponential).total;
    mine.sum.add(total.sum);
    mine.count += total.count;
  }
}

at::Tensor MetricSums::loss() const {
  at::Tensor sum;
  if (entries_.empty()) return sum;
  for (const auto& term : entries_.front().terms) sum = sum.defined() ? sum + term.value : term.value;
  return sum;
}

at::Tensor MetricSums::mean_loss() const {
  if (entries_.empty() || entries_.front().terms.empty()) return {};
  const auto& terms = entries_.front().terms;
  if (terms.size() == 1) return terms.front().value;  // a mean loss, as each of them
  at::Tensor sum, count;
  for (const auto& term : terms) {
    const auto weight =
        term.is_mean ? term.counted.to(at::kDouble) : at::full_like(term.value, term.factor, at::kDouble);
    const auto product = zero_if_none_counts(term.value * weight, term.counted);
    sum = sum.defined() ? sum + product : product;
    count = count.defined() ? count + weight : weight;
  }
  return sum / count.clamp_min(1);
}

// Returns those of the values, then those of what counts.
std::vector<at::Tensor*> MetricSums::places(c10::Device device) {
  std::vector<at::Tensor*> values, counts;
  for (auto& entry : entries_) {
    for (auto& term : entry.terms) {
      if (term.value.device() == device) values.push_back(&term.value);
      if (term.counted.defined() && term.counted.device() == device) counts.push_back(&term.counted);
    }
  }
  values.insert(values.end(), counts.begin(), counts.end());
  return values;
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
  const auto same = [](const Term& a, const Term& b) {
    return a.count == b.count && a.factor == b.factor && a.is_mean == b.is_mean &&
           a.counted.defined() == b.counted.defined();
  };
  return std::ranges::equal(entries_, others.entries_, [&](const Entry& a, const Entry& b) {
    return a.total.name == b.total.name && a.total.exponential == b.total.exponential &&
           std::ranges::equal(a.terms, b.terms, same);
  });
}

std::string MetricSums::made_beside(c10::Device device) const {
  const auto is_beside = [&](const Term& term) {
    return term.value.device() != device || (term.counted.defined() && term.counted.device() != device);
  };
  for (const auto& [total, terms] : entries_) {
    if (std::ranges::any_of(terms, is_beside)) return total.name;
  }
  return "";
}

std::optional<c10::Device> MetricSums::other_than_cpu() const {
  for (const auto& [total, terms] : entries_) {
    for (const auto& term : terms) {
      if (!term.value.is_cpu()) return term.value.device();
      if (term.counted.defined() && !term.counted.is_cpu()) return term.counted.device();
    }
  }
  return std::nullopt;
}

// Reads all numbers with one wait for the GPU that has some of them.
void MetricSums::read() {
  if (const auto device = other_than_cpu()) *this = with(packed(scalars(*device)).cpu(), *device);
  for (auto& [total, terms] : entries_) {
    for (const auto& term : terms) {
      double sum = term.factor * value_of(term.value);
      const double count = term.counted.defined() ? value_of(term.counted) : static_cast<double>(term.count);
      if (term.is_mean) sum *= count;
      total.sum.add(count > 0 ? sum : 0);  // what is 0 where nothing counts may be NaN
      total.count += static_cast<int64_t>(count);
    }
    terms.clear();
  }
}

std::vector<MetricTotal> MetricSums::totals(Communicator& communicator) const {
  std::vector<MetricTotal> totals;
  for (const auto& total : exact_totals(communicator)) totals.push_back(total.rounded());
  return totals;
}

std::vector<ExactTotal> MetricSums::exact_totals(Communicator& communicator) const {
  auto copy = *this;
  copy.read();
  std::vector<ExactTotal> totals;
  for (const auto& entry : copy.entries_) totals.push_back(entry.total);
  if (!communicator.is_distributed()) return totals;  // nothing to agree on or to add up, so a row per step is cheap
  const auto what = agreed(description_of(totals), kOtherMetrics, communicator);
  const bool has_none = totals.empty() && !what.empty();  // of its own: it adds zeros
  for (const auto& one : has_none ? Json::parse(what) : Json::array())
    totals.push_back({.name = one.at(0), .exponential = one.at(1)});
  std::vector<ExactSum> sums;
  std::vector<int64_t> counts;
  for (const auto& total : totals) {
    sums.push_back(total.sum);
    counts.push_back(total.count);
  }
  auto words = at::cat({words_of(sums), at::tensor(counts, at::kLong).unsqueeze(1)}, 1);
  communicator.sum(words);
  sums = sums_of(words.slice(1, 0, -1));
  const auto numbers = words.accessor<int64_t, 2>();
  for (size_t i = 0; i < totals.size(); ++i) {
    totals[i].sum = sums[i];
    totals[i].count = numbers[static_cast<int64_t>(i)][ExactSum::kWords];
  }
  return totals;
}

at::Tensor MetricSums::numbers() const {
  auto copy = *this;
  copy.read();
  auto numbers = at::zeros({2, static_cast<int64_t>(entries_.size())}, at::kDouble);
  auto view = numbers.accessor<double, 2>();
  for (size_t i = 0; i < entries_.size(); ++i) {
    view[0][static_cast<int64_t>(i)] = copy.entries_[i].total.sum.value();
    view[1][static_cast<int64_t>(i)] = static_cast<double>(copy.entries_[i].total.count);
  }
  return numbers;
}

void MetricSums::reset(const std::vector<ExactTotal>& totals) {
  entries_.clear();
  for (const auto& total : totals) entries_.push_back({.total = total});
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

NamedValues values_of(const std::vector<MetricTotal>& totals, const std::string& split) {
  NamedValues values;
  values.reserve(totals.size() + 8);  // a row's other values
  for (const auto& total : totals)
    values.emplace_back(split.empty() ? total.name : split + "/" + total.name, total.value());
  return values;
}

namespace {

constexpr auto kTaken = std::to_array<std::string_view>(
    {"loss", "time", "attempt", "split", "epoch", "step", "samples", "nonfinite", "lr", "samples_per_second",
     "tokens_per_second", "model_flops_per_second", "mfu", "grad_norm", "loss_scale", "overflows", "skipped_steps"});
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
