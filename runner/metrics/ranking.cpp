// SPDX-License-Identifier: MIT
#include "metrics/ranking.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <span>

namespace ddprun {
namespace {

constexpr int kScoreBits = 31;  // of a float32 that is not negative

// The samples of one label that have it, or that have it not: keys in ascending order with their counts.
struct Side {
  std::span<const int64_t> keys, counts;
  int64_t first = 0;  // the key of score 0

  bool is_empty() const { return keys.empty(); }
  int64_t highest() const { return keys.back() - first; }

  // Takes the samples with this score, if the highest is that.
  int64_t take(int64_t score) {
    if (is_empty() || highest() != score) return 0;
    const auto count = counts.back();
    keys = keys.first(keys.size() - 1);
    counts = counts.first(keys.size());
    return count;
  }

  int64_t total() const {
    int64_t sum = 0;
    for (const auto count : counts) sum += count;
    return sum;
  }
};

Side side_of(const MetricCounts& total, int64_t place) {
  const int bits = kScoreBits - static_cast<int>(total.joined);
  const std::span<const int64_t> keys(total.keys.const_data_ptr<int64_t>(), static_cast<size_t>(total.keys.numel()));
  const auto begin = std::ranges::lower_bound(keys, place << bits) - keys.begin();
  const auto end = std::ranges::lower_bound(keys, (place + 1) << bits) - keys.begin();
  const auto count = static_cast<size_t>(end - begin);
  const std::span<const int64_t> counts(total.counts.const_data_ptr<int64_t>(), keys.size());
  return {.keys = keys.subspan(static_cast<size_t>(begin), count),
          .counts = counts.subspan(static_cast<size_t>(begin), count),
          .first = place << bits};
}

// Goes through the scores from the highest to the lowest. The errors are those of the worst order within a bin: in it,
// a pair is ranked right or wrong instead of half right, and the precision at a sample is anything from where all the
// bin's negatives come first to where none has come yet.
Ranking ranking_of(Side with, Side without) {
  Ranking ranking{.positives = with.total(), .negatives = without.total()};
  const auto positives = static_cast<double>(ranking.positives), negatives = static_cast<double>(ranking.negatives);
  double true_positives = 0, false_positives = 0, pairs = 0, tied = 0;
  while (!with.is_empty()) {
    const auto score = without.is_empty() ? with.highest() : std::max(with.highest(), without.highest());
    const auto hits = static_cast<double>(with.take(score)), misses = static_cast<double>(without.take(score));
    pairs += hits * (negatives - false_positives - misses / 2);
    tied += hits * misses / 2;
    if (hits > 0) {
      const double all = true_positives + hits + false_positives;
      const double precision = (true_positives + hits) / (all + misses);
      const double best = (true_positives + hits) / all;
      const double worst = (true_positives + 1) / (true_positives + 1 + false_positives + misses);
      ranking.average_precision += hits / positives * precision;
      ranking.average_precision_error += hits / positives * std::max(best - precision, precision - worst);
    }
    true_positives += hits;
    false_positives += misses;
  }
  if (positives > 0 && negatives > 0) {
    ranking.auroc = pairs / positives / negatives;
    ranking.auroc_error = tied / positives / negatives;
  }
  return ranking;
}

}  // namespace

MetricCounts score_counts(const at::Tensor& scores, const at::Tensor& truth) {
  const auto labels = scores.size(1);
  const auto bits =
      scores.to(at::kFloat).contiguous().view(at::kInt).to(at::kLong).bitwise_and((int64_t{1} << kScoreBits) - 1);
  const auto label = at::arange(labels, bits.options());
  const auto keys = (truth.to(at::kLong) * labels + label).mul_(int64_t{1} << kScoreBits).add_(bits).flatten();
  return {.name = "scores", .counts = at::ones_like(keys), .keys = keys};
}

std::vector<Ranking> rankings(const MetricCounts& total, int64_t labels) {
  TORCH_CHECK(total.joined <= kScoreBits, "the keys of scores have lost their labels: ", total.joined, " bits");
  std::vector<Ranking> all;
  for (int64_t label = 0; label < labels; ++label) {
    all.push_back(ranking_of(side_of(total, labels + label), side_of(total, label)));
    if (total.joined == 0) all.back().auroc_error = all.back().average_precision_error = 0;
  }
  return all;
}

}  // namespace ddprun
