// SPDX-License-Identifier: MIT
#include "support/error_of.h"

#include <ddprun/folds.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

std::vector<int64_t> made_labels() {
  std::vector<int64_t> labels(103, 0);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = i % 10 == 0 ? 2 : i % 3 == 0 ? 1 : 0;
  return labels;
}

// How many samples of each class each group has.
using Counts = std::map<int64_t, std::map<int64_t, int64_t>>;
Counts counts_of(const std::vector<int64_t>& groups, const std::vector<int64_t>& labels) {
  Counts counts;
  for (size_t i = 0; i < labels.size(); ++i) ++counts[groups[i]][labels[i]];
  return counts;
}

TEST(Folds, HaveTheSameSizeAndTheSameShareOfEachClassButForOneAndFollowFromTheSeed) {
  const auto labels = made_labels();
  const auto counts = counts_of(assign_folds(labels, 5, 7), labels);
  ASSERT_EQ(counts.size(), 5u);
  for (const auto& [fold, of_class] : counts) {
    int64_t size = 0;
    for (const auto& [label, count] : of_class) {
      size += count;
      const auto share = std::ranges::count(labels, label) / 5;
      EXPECT_TRUE(share <= count && count <= share + 1) << count << " of " << label;
    }
    EXPECT_EQ(size, fold < 3 ? 21 : 20);
  }
  EXPECT_EQ(assign_folds(labels, 5, 7), assign_folds(labels, 5, 7));
  EXPECT_NE(assign_folds(labels, 5, 7), assign_folds(labels, 5, 8));
}

TEST(Folds, AreNotMoreThanTheSamples) {
  const std::vector<int64_t> labels(3, 0);
  EXPECT_NO_THROW(assign_folds(labels, 3, 1));
  for (const int64_t count : {0, 1, 4}) EXPECT_THROW(assign_folds(labels, count, 1), UserError) << count;
}

TEST(HeldOutSamples, AreOfEachClassItsShareAndLeaveOneOfEach) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 300; ++i) labels.push_back(i % 4);
  const auto chosen = choose_evenly(labels, 30, 7, 1);
  auto counts = counts_of({chosen.begin(), chosen.end()}, labels);
  for (const auto& [label, count] : counts[1]) EXPECT_TRUE(count == 7 || count == 8) << label;
  EXPECT_EQ(std::ranges::count(chosen, true), 30);
  EXPECT_EQ(chosen, choose_evenly(labels, 30, 7, 1));
  EXPECT_NE(chosen, choose_evenly(labels, 30, 8, 1));
  EXPECT_NE(chosen, choose_evenly(labels, 30, 7, 2));
  const std::vector<int64_t> few{0, 0, 0, 1, 2, 2};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto most = choose_evenly(few, 5, seed, 1);
    EXPECT_EQ(counts_of({most.begin(), most.end()}, few)[0].size(), 3U) << "seed " << seed;
  }
}

std::string problems_of(const std::vector<std::pair<std::string, std::string>>& settings) {
  auto values = Value::map();
  for (const auto& [name, value] : settings) values.set(name, Value::scalar(value));
  Options options(std::move(values), "dataset");
  Fold::read(options, "val_fraction");
  options.get<double>("val_fraction", 0, "share");
  std::string text;
  for (const auto& problem : options.problems()) text += problem + "\n";
  return text;
}

TEST(Folds, MistakesAreNamed) {
  expect_refused<std::vector<std::pair<std::string, std::string>>>(
      problems_of, {{{{"folds", "5"}, {"fold", "4"}}, ""},
                    {{{"val_fraction", "0.2"}}, ""},
                    {{{"folds", "5"}, {"fold", "5"}}, "dataset.fold: expected 0 to 4"},
                    {{{"folds", "1"}}, "dataset.folds: expected 2 or more"},
                    {{{"fold", "1"}}, "dataset.fold: of how many?"},
                    {{{"folds", "5"}, {"val_fraction", "0.1"}}, "dataset.val_fraction: folds holds out val"}});
}

}  // namespace
}  // namespace ddprun
