// SPDX-License-Identifier: MIT
#include "metrics/metric_counts.h"

#include "support/error_of.h"
#include "support/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using testing::on_ranks;

MetricCounts table(const std::string& name, const std::vector<int64_t>& counts) {
  return {.name = name, .counts = torch::tensor(counts, at::kLong)};
}

MetricCounts by_key(const at::Tensor& keys) { return {.name = "scores", .counts = at::ones_like(keys), .keys = keys}; }

TEST(CountSums, AddBatchesAndLeaveTheirTensorsAsTheyAre) {
  CountSums sums;
  const auto first = table("hits", {1, 2}), second = table("hits", {10, 20});
  sums.add({first, {.name = "weights", .counts = torch::tensor(0.5, at::kDouble)}});
  sums.add({second, {.name = "weights", .counts = torch::tensor(0.25, at::kDouble)}});
  const auto found = sums.sums();
  EXPECT_TRUE(at::equal(found[0].counts, torch::tensor({11, 22}, at::kLong)));
  EXPECT_EQ(found[1].name, "weights");
  EXPECT_EQ(found[1].counts.item<double>(), 0.75);
  EXPECT_TRUE(at::equal(first.counts, torch::tensor({1, 2}, at::kLong)));
}

TEST(CountSums, RanksWithManyFewAndNoBatchesAddUp) {
  on_ranks(3, [](Communicator& ranks) {
    CountSums sums;
    const auto keys = torch::tensor({7, 3, 7}, at::kLong);
    if (ranks.world().rank == 1) sums.add({table("hits", {1, 2}), by_key(keys)});
    if (ranks.world().rank > 0) sums.add({table("hits", {5, 5}), by_key(keys)});
    const auto totals = sums.totals(ranks);
    ASSERT_EQ(totals.size(), 2U) << ranks.world().rank;
    EXPECT_TRUE(at::equal(totals[0].counts, torch::tensor({11, 12}, at::kLong)));
    EXPECT_EQ(totals[1].name, "scores");
    EXPECT_TRUE(at::equal(totals[1].keys, torch::tensor({3, 7}, at::kLong)));
    EXPECT_TRUE(at::equal(totals[1].counts, torch::tensor({3, 6}, at::kLong)));
  });
}

// Returns the float64 totals of rows that so many ranks share, each row a batch.
at::Tensor real_total_on(int64_t ranks, const at::Tensor& rows) {
  at::Tensor total;
  on_ranks(ranks, [&](Communicator& communicator) {
    CountSums sums;
    for (int64_t row = communicator.world().rank; row < rows.size(0); row += ranks)
      sums.add({{.name = "areas", .counts = rows[row]}});
    const auto found = sums.totals(communicator);
    if (communicator.world().rank == 0) total = found.at(0).counts;
  });
  return total;
}

TEST(CountSums, NumbersInFloat64AddToTheSameBitsOnAnyRanks) {
  torch::manual_seed(1);
  for (const auto& shape : {std::vector<int64_t>{}, {3}, {60, 700}}) {  // the last is more than waits for a copy
    auto of_rows = shape;
    of_rows.insert(of_rows.begin(), 7);
    const auto rows = (torch::randn(of_rows, at::kDouble) * 20).exp();  // of magnitudes from 1e-30 to 1e30
    const auto alone = real_total_on(1, rows);
    EXPECT_EQ(alone.sizes(), at::IntArrayRef(shape));
    EXPECT_TRUE(at::allclose(alone, rows.sum(0), 1e-12));
    EXPECT_TRUE(at::equal(real_total_on(1, rows.flip(0)), alone)) << "in another order";
    for (const int64_t ranks : {2, 3, 8}) EXPECT_TRUE(at::equal(real_total_on(ranks, rows), alone)) << ranks;
  }
}

TEST(CountSums, WithoutAnyBatchThereAreNone) {
  on_ranks(2, [](Communicator& ranks) { EXPECT_TRUE(CountSums().totals(ranks).empty()); });
}

TEST(CountSums, RefuseOtherCountsThanBeforeAndMalformedOnes) {
  const auto hits = table("hits", {1, 2});
  auto uneven = by_key(torch::tensor({1, 2}, at::kLong));
  uneven.counts = uneven.counts.slice(0, 1);
  using Batches = std::vector<std::vector<MetricCounts>>;
  const std::vector<std::pair<Batches, std::string>> refusals{
      {{{hits}, {hits}}, ""},
      {{{hits}, {table("misses", {1, 2})}}, R"(found [["hits","int64",[2]]] and [["misses","int64",[2]]])"},
      {{{hits}, {table("hits", {1, 2, 3})}}, R"(and [["hits","int64",[3]]])"},
      {{{hits}, {}}, "and []"},
      {{{}, {hits}}, "found [] and"},
      {{{{.name = "hits", .counts = torch::ones({2})}}}, "\"hits\" of step() are Float"},
      {{{{.name = "hits", .counts = {}}}}, "undefined"},
      {{{uneven}}, "expected both as [n] int64"}};
  for (const auto& [batches, words] : refusals) {
    CountSums sums;
    const auto problem = error_of([&] { std::ranges::for_each(batches, [&](const auto& one) { sums.add(one); }); });
    EXPECT_EQ(problem.empty(), words.empty()) << problem;
    EXPECT_THAT(problem, HasSubstr(words));
  }
}

TEST(CountSums, RanksThatCountOtherThingsAreAnError) {
  const std::vector<std::pair<std::vector<MetricCounts>, bool>> of_others{
      {{table("hits", {2})}, false},
      {{table("misses", {1})}, true},
      {{}, true}};  // the last has batches, and no counts
  for (const auto& [counts, is_other] : of_others) {
    const auto problem = error_of([&] {
      on_ranks(2, [&](Communicator& ranks) {
        CountSums sums;
        sums.add(ranks.world().rank == 0 ? std::vector{table("hits", {1})} : counts);
        sums.totals(ranks);
      });
    });
    EXPECT_EQ(!problem.empty(), is_other) << problem;
  }
}

// Returns the totals of keys that many ranks have in batches of some size.
MetricCounts total_on(int64_t ranks, const at::Tensor& keys, int64_t batch, int64_t most_keys) {
  MetricCounts total;
  on_ranks(ranks, [&](Communicator& communicator) {
    CountSums sums(most_keys);
    const auto batches = keys.split(batch);
    for (size_t i = 0; i < batches.size(); ++i) {
      if (static_cast<int64_t>(i) % ranks == communicator.world().rank) sums.add({by_key(batches[i])});
    }
    const auto found = sums.totals(communicator);
    if (communicator.world().rank == 0) total = found.at(0);
  });
  return total;
}

TEST(KeyedCounts, AreTheSameHoweverTheSamplesAreDistributed) {
  torch::manual_seed(1);
  const auto keys = torch::randn({2000}).abs().mul(1000).to(at::kLong);  // about 1,200 different ones
  for (const int64_t most : {5000, 300, 40, 1}) {
    const auto alone = total_on(1, keys, 2000, most);
    EXPECT_EQ(alone.joined == 0, most == 5000);
    EXPECT_EQ(alone.counts.sum().item<int64_t>(), 2000);
    EXPECT_LE(alone.keys.size(0), most);
    const auto [unique, inverse, counts] =
        at::_unique2(keys.bitwise_right_shift(alone.joined), /*sorted=*/true, false, /*return_counts=*/true);
    EXPECT_TRUE(at::equal(alone.keys, unique));
    EXPECT_TRUE(at::equal(alone.counts, counts));
    if (alone.joined > 0) {
      const auto finer = std::get<0>(at::_unique2(keys.bitwise_right_shift(alone.joined - 1)));
      EXPECT_GT(finer.size(0), most) << "bins were joined without need";
    }
    for (const int64_t ranks : {1, 2, 3}) {
      for (const int64_t batch : {7, 64, 900}) {
        const auto total = total_on(ranks, keys, batch, most);
        EXPECT_EQ(total.joined, alone.joined) << ranks << " ranks, batches of " << batch;
        EXPECT_TRUE(at::equal(total.keys, alone.keys));
        EXPECT_TRUE(at::equal(total.counts, alone.counts));
      }
    }
  }
}

}  // namespace
}  // namespace ddprun
