// SPDX-License-Identifier: MIT
#include "metrics/metric_counts.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

namespace ddprun {
namespace {

using Json = nlohmann::json;

constexpr auto kMixed =
    "model: step() counts other things in one batch than in another: it must return counts of the same names, "
    "types and shapes in the same order for every batch; found ";

// Returns ["confusion","int64",[10,10]], or ["scores","by key"].
std::string description_of(const MetricCounts& one) {
  auto described = Json::array({one.name, "by key"});
  if (!one.keys.defined()) {
    const auto* type = one.counts.scalar_type() == at::kLong ? "int64" : "float64";
    described = Json::array({one.name, type, one.counts.sizes().vec()});
  }
  return described.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string joined(const std::vector<std::string>& descriptions) {
  std::string text;
  for (const auto& one : descriptions) text += (text.empty() ? "" : ",") + one;
  return "[" + text + "]";
}

MetricCounts zeros_as(const Json& described) {
  MetricCounts zeros{.name = described.at(0)};
  if (described.size() == 2) {
    zeros.counts = zeros.keys = at::zeros({0}, at::kLong);
  } else {
    const auto type = described.at(1) == "int64" ? at::kLong : at::kDouble;
    zeros.counts = at::zeros(described.at(2).get<std::vector<int64_t>>(), type);
  }
  return zeros;
}

void require_sound(const MetricCounts& one) {
  const auto refuse = [&](const std::string& problem) {
    throw UserError("model: the counts \"" + one.name + "\" of step() " + problem);
  };
  if (!one.counts.defined()) refuse("are an undefined tensor; expected int64 or float64");
  const auto type = one.counts.scalar_type();
  if (!one.keys.defined()) {
    if (type != at::kLong && type != at::kDouble)
      refuse(std::string("are ") + c10::toString(type) + "; expected int64 or float64");
    return;
  }
  const bool fit = one.keys.dim() == 1 && one.counts.sizes() == one.keys.sizes() && type == at::kLong &&
                   one.keys.scalar_type() == at::kLong;
  if (!fit) refuse("have keys; expected both as [n] int64");
}

// Adds the counts of equal keys, which are neighbours.
MetricCounts sum_of_neighbours(const MetricCounts& sorted) {
  auto sum = sorted;
  at::Tensor place;
  std::tie(sum.keys, place, std::ignore) = at::unique_consecutive(sorted.keys, /*return_inverse=*/true);
  sum.counts = at::zeros_like(sum.keys).index_add_(0, place, sorted.counts);
  return sum;
}

constexpr int64_t kWorthACopy = 1 << 16;  // numbers

at::Tensor rounded(const std::vector<ExactSum>& sums, at::IntArrayRef shape) {
  std::vector<double> numbers;
  for (const auto& sum : sums) numbers.push_back(sum.value());
  return at::tensor(numbers, at::kDouble).reshape(shape);
}

}  // namespace

void RealCounts::add(const at::Tensor& counts) {
  waiting_.push_back(counts.detach());
  if (static_cast<int64_t>(waiting_.size()) * counts.numel() < kWorthACopy) return;
  add_waiting(sums_);
  waiting_.clear();
}

void RealCounts::add_waiting(std::vector<ExactSum>& sums) const {
  if (waiting_.empty()) return;
  std::vector<at::Tensor> rows;
  for (const auto& counts : waiting_) rows.push_back(counts.to(waiting_.front().device()).reshape({-1}));
  const auto all = at::stack(rows).cpu();
  const auto numbers = all.accessor<double, 2>();
  sums.resize(static_cast<size_t>(all.size(1)));
  for (int64_t row = 0; row < all.size(0); ++row) {
    for (int64_t i = 0; i < all.size(1); ++i) sums[static_cast<size_t>(i)].add(numbers[row][i]);
  }
}

std::vector<ExactSum> RealCounts::sums() const {
  auto sums = sums_;
  add_waiting(sums);
  return sums;
}

void KeyedCounts::add(MetricCounts part) {
  waiting_ += part.keys.size(0);
  parts_.push_back(std::move(part));
  if (waiting_ <= most_keys_) return;
  auto all = merged();
  parts_.clear();
  parts_.push_back(std::move(all));
  waiting_ = 0;
}

// Joins the bins of each part as often as the others have needed it. Some of the samples never need it more often than
// all of them, so that all of them need it equally often however they are distributed.
MetricCounts KeyedCounts::merged() const {
  auto sum = parts_.front();
  for (const auto& part : parts_) sum.joined = std::max(sum.joined, part.joined);
  std::vector<at::Tensor> keys, counts;
  for (const auto& part : parts_) {
    keys.push_back(part.keys.to(sum.keys.device()).bitwise_right_shift(sum.joined - part.joined));
    counts.push_back(part.counts.to(sum.keys.device()));
  }
  at::Tensor order;
  std::tie(sum.keys, order) = at::cat(keys).sort();
  sum.counts = at::cat(counts).index_select(0, order);
  sum = sum_of_neighbours(sum);
  constexpr int64_t kBits = 63;  // of a key
  while (sum.keys.size(0) > most_keys_ && sum.joined < kBits) {
    sum.keys = sum.keys.bitwise_right_shift(1);
    ++sum.joined;
    sum = sum_of_neighbours(sum);
  }
  return sum;
}

CountSums::Kind CountSums::kind_of(const MetricCounts& one) {
  if (one.keys.defined()) return Kind::kKeyed;
  return one.counts.scalar_type() == at::kLong ? Kind::kInteger : Kind::kReal;
}

void CountSums::add(const std::vector<MetricCounts>& counts) {
  std::ranges::for_each(counts, require_sound);
  std::vector<std::string> found;
  for (const auto& one : counts) found.push_back(description_of(one));
  if (!std::exchange(began_, true)) {
    for (size_t i = 0; i < counts.size(); ++i)
      entries_.push_back({found[i], kind_of(counts[i]), {.name = counts[i].name}, {}, KeyedCounts(most_keys_)});
  }
  if (!std::ranges::equal(entries_, found, {}, &Entry::description))
    throw UserError(kMixed + description() + " and " + joined(found));
  for (size_t i = 0; i < counts.size(); ++i) {
    auto& [description, kind, sum, real, keyed] = entries_[i];
    if (kind == Kind::kKeyed) keyed.add(counts[i]);
    if (kind == Kind::kReal) real.add(counts[i].counts);
    const auto more = counts[i].counts.detach();
    const bool is_first = !sum.counts.defined();
    if (is_first || kind == Kind::kInteger) sum.counts = is_first ? more : sum.counts + more.to(sum.counts.device());
  }
}

std::string CountSums::description() const {
  std::vector<std::string> all;
  for (const auto& entry : entries_) all.push_back(entry.description);
  return joined(all);
}

std::vector<MetricCounts> CountSums::sums() const {
  std::vector<MetricCounts> sums;
  for (const auto& [description, kind, sum, real, keyed] : entries_) {
    sums.push_back(kind == Kind::kKeyed ? keyed.merged() : sum);
    if (kind == Kind::kReal) sums.back().counts = rounded(real.sums(), sum.counts.sizes()).to(sum.counts.device());
    sums.back().name = sum.name;
  }
  return sums;
}

namespace {

// Adds up keys of one rank after the other, so that memory holds those of two at most.
MetricCounts keyed_total(const MetricCounts& mine, int64_t most_keys, Communicator& communicator) {
  const auto [rank, ranks] = std::pair(communicator.world().rank, communicator.world().size);
  auto sizes = at::zeros({ranks, 2}, at::kLong);
  sizes[rank].copy_(at::tensor({mine.keys.size(0), mine.joined}, at::kLong));
  communicator.sum(sizes);
  KeyedCounts total(most_keys);
  for (int64_t other = 0; other < ranks; ++other) {
    const auto keys = sizes[other][0].item<int64_t>();
    auto both = other == rank ? at::stack({mine.keys, mine.counts}) : at::zeros({2, keys}, at::kLong);
    if (keys > 0) communicator.sum(both);
    total.add({.name = mine.name, .counts = both[1], .keys = both[0], .joined = sizes[other][1].item<int64_t>()});
  }
  return total.merged();
}

}  // namespace

std::vector<MetricCounts> CountSums::totals(Communicator& communicator) const {
  auto totals = sums();
  for (auto& one : totals) {
    one.counts = one.counts.cpu().contiguous();
    if (one.keys.defined()) one.keys = one.keys.cpu();
  }
  if (!communicator.is_distributed()) return totals;
  const auto what = agreed(began_ ? description() : "", kMixed, communicator);
  if (!began_ && !what.empty()) {
    for (const auto& described : Json::parse(what)) totals.push_back(zeros_as(described));
  }
  for (size_t i = 0; i < totals.size(); ++i) {
    auto& one = totals[i];
    const auto kind = kind_of(one);
    if (kind == Kind::kKeyed) one = keyed_total(one, most_keys_, communicator);
    if (kind == Kind::kReal) {
      const auto none = std::vector<ExactSum>(static_cast<size_t>(one.counts.numel()));
      auto words = words_of(began_ ? entries_[i].real.sums() : none);
      communicator.sum(words);
      one.counts = rounded(sums_of(words), one.counts.sizes());
    }
    if (kind == Kind::kInteger) {
      one.counts = one.counts.clone();
      communicator.sum(one.counts);
    }
  }
  return totals;
}

}  // namespace ddprun
