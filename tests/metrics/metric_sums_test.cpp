// SPDX-License-Identifier: MIT
#include "metrics/metric_sums.h"

#include "metrics/packed.h"
#include "support/error_of.h"
#include "support/ranks.h"

#include <ddprun/error.h>
#include <ddprun/random.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

namespace ddprun {
namespace {

using testing::on_ranks;

Step step_of(double loss, double correct, int64_t count) {
  return {.loss = torch::scalar_tensor(loss), .metrics = {{"accuracy", torch::scalar_tensor(correct), count}}};
}

TEST(MetricSums, MeansAreOverTheSamplesOfRanksWithManyFewAndNoBatches) {
  on_ranks(4, [](Communicator& ranks) {
    MetricSums sums;
    if (ranks.world().rank == 0) sums.add(step_of(1, 2, 4), 4);
    if (ranks.world().rank < 2) sums.add(step_of(3, 1, 2), 2);
    if (ranks.world().rank == 2) sums.add(step_of(100, 1, 1), 0);  // it only keeps step with the others
    const auto totals = sums.totals(ranks);
    ASSERT_EQ(totals.size(), 2U);
    EXPECT_EQ(totals[0].name, "loss");
    EXPECT_DOUBLE_EQ(totals[0].value(), (4.0 * 1 + 2 * 3 + 2 * 3) / 8);
    EXPECT_EQ(totals[1].sum, 4);
    EXPECT_EQ(totals[1].count, 8);
  });
}

TEST(MetricSums, RanksThatReportOtherMetricsAreAnError) {
  EXPECT_THROW(on_ranks(2,
                        [](Communicator& ranks) {
                          MetricSums sums;
                          auto step = step_of(1, 1, 1);
                          step.metrics[0].name += std::to_string(ranks.world().rank);
                          sums.add(step, 1);
                          sums.totals(ranks);
                        }),
               UserError);
}

TEST(MetricSums, SumsOfASingleStepJoinTheOthers) {
  Communicator alone({});
  MetricSums window, step;
  window.add(step_of(1, 2, 4), 4);
  step.add(step_of(4, 1, 2), 2);
  step.add_number("grad_norm", torch::scalar_tensor(3.0), true);
  window.add(step);
  const auto totals = window.totals(alone);
  ASSERT_EQ(totals.size(), 3U);
  EXPECT_DOUBLE_EQ(totals[0].value(), 2.0);
  EXPECT_EQ(totals[1].count, 6);
  EXPECT_EQ(totals[2].value(), 3.0);
}

TEST(MetricSums, APerplexityIsTheExponentialOfTheMeanOverAllRanks) {
  on_ranks(3, [](Communicator& ranks) {
    const auto rank = ranks.world().rank;
    MetricSums sums;
    const MetricSum entropy{
        .name = "perplexity", .sum = torch::scalar_tensor(6.0 * (rank + 1)), .count = 3, .exponential = true};
    if (rank < 2) sums.add({.loss = torch::scalar_tensor(1.0), .metrics = {entropy}}, 1);
    const auto totals = sums.totals(ranks);
    ASSERT_EQ(totals.size(), 2U);
    EXPECT_EQ(totals[1].name, "perplexity");
    EXPECT_DOUBLE_EQ(totals[1].value(), std::exp(18.0 / 6));
    const auto saved = sums.exact_totals(ranks);
    MetricSums restored;
    if (rank == 0) restored.reset(saved);
    EXPECT_DOUBLE_EQ(values_of(restored.totals(ranks))[1].second, std::exp(18.0 / 6));
  });
}

TEST(MetricSums, TotalsHaveTheSameBitsHoweverBatchesAreSpreadOverRanks) {
  std::vector<double> values;
  RandomStream draws(3, 4);
  for (int i = 0; i < 60; ++i) values.push_back(draws.normal() * std::ldexp(1, static_cast<int>(draws.below(80)) - 40));
  const auto totals_on = [&](int64_t world) {
    std::vector<double> totals;
    on_ranks(world, [&](Communicator& ranks) {
      const auto rank = ranks.world().rank;
      MetricSums sums;
      for (size_t i = static_cast<size_t>(rank); i < values.size(); i += static_cast<size_t>(world)) {
        sums.add({.loss = torch::scalar_tensor(values[i], at::kDouble)}, 1);
        sums.add_number("grad_norm", torch::scalar_tensor(0.1), rank == 0);
        if (i % 2 == 0) sums.read();
      }
      const auto found = sums.totals(ranks);
      if (rank == 0) totals = {found[0].value(), found[1].value()};
    });
    return totals;
  };
  const auto alone = totals_on(1);
  for (const int64_t world : {2, 3, 4}) EXPECT_EQ(totals_on(world), alone) << world << " ranks";
}

TEST(MetricSums, TotalsRestoreTheSumsExactly) {
  Communicator alone({});
  MetricSums sums;
  sums.add(step_of(1.0 / 3, 1, 3), 3);
  MetricSums restored;
  restored.reset(sums.exact_totals(alone));
  sums.add(step_of(0.1, 1, 3), 3);
  restored.add(step_of(0.1, 1, 3), 3);
  EXPECT_TRUE(at::equal(restored.numbers(), sums.numbers()));
}

TEST(MetricSums, TakeAnyReadableNameAndRefuseOthersWithTheReason) {
  const std::vector<std::pair<std::string, std::string>> names{
      {"a/b", ""},
      {"\"quoted\"", ""},
      {"größe, 精度", ""},
      {"<b> y", ""},
      {"", "empty name"},
      {"loss", "called loss, which is reserved"},
      {"step", "called step, which is reserved"},
      {"two\nlines", "control character, such as a newline: \"two\\nlines\""},
      {"\xff", "not UTF-8"},
      {std::string(1000, 'x'), "1000 bytes"}};
  for (const auto& [name, reason] : names) {
    MetricSums sums;
    const Step step{.loss = torch::scalar_tensor(1.0), .metrics = {{name, torch::scalar_tensor(1.0), 1}}};
    const auto problem = error_of([&] { sums.add(step, 1); });
    EXPECT_EQ(problem.empty(), reason.empty()) << problem;
    EXPECT_THAT(problem, ::testing::HasSubstr(reason));
  }
}

TEST(Packed, HasNumbersOfEveryType) {
  const auto numbers = packed({torch::tensor(0.5F), torch::tensor(1e300, at::kDouble), torch::tensor(int64_t{1} << 40),
                               torch::tensor(true), torch::tensor(3., at::kBFloat16)});
  EXPECT_TRUE(at::equal(numbers, torch::tensor({0.5, 1e300, 0x1p40, 1., 3.}, at::kDouble)));
  EXPECT_EQ(packed({}).numel(), 0);
}

TEST(MetricSums, ArePackedIntoOneTensorAndTakenOutOfAnother) {
  MetricSums sums;
  sums.add({.loss = torch::tensor(2.0F), .metrics = {{.name = "hits", .sum = torch::tensor(3), .count = 4}}}, 4);
  const auto others = sums.with(2 * packed(sums.scalars(at::kCPU)), at::kCPU);
  EXPECT_TRUE(at::equal(sums.numbers(), torch::tensor({{8.0, 3.0}, {4.0, 4.0}}, at::kDouble)));
  EXPECT_TRUE(at::equal(others.numbers(), torch::tensor({{16.0, 6.0}, {4.0, 4.0}}, at::kDouble)));
  EXPECT_TRUE(sums.alike(others));
}

TEST(MetricSums, AreAlikeWithTheSameNamesAndCounts) {
  const auto of = [](const char* name, int64_t count) {
    MetricSums sums;
    sums.add({.loss = torch::tensor(2.0F), .metrics = {{.name = name, .sum = torch::tensor(3), .count = count}}}, 4);
    return sums;
  };
  EXPECT_TRUE(of("hits", 4).alike(of("hits", 4)));
  EXPECT_FALSE(of("hits", 4).alike(of("hits", 3)));
  EXPECT_FALSE(of("hits", 4).alike(of("misses", 4)));
}

TEST(MetricSums, NameOneThatIsMadeBesideTheDevice) {
  MetricSums sums;
  sums.add({.loss = torch::tensor(2.0F)}, 4);
  EXPECT_EQ(sums.made_beside(at::kCPU), "");
  EXPECT_EQ(sums.made_beside(at::kMeta), "loss");
}

}  // namespace
}  // namespace ddprun
