// SPDX-License-Identifier: MIT
#include <ddprun/error.h>
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

TEST(Folds, HaveTheSameSizeAndTheSameShareOfEachClassButForOne) {
  const auto labels = made_labels();
  const auto folds = assign_folds(labels, 5, 7);
  std::map<int64_t, int64_t> sizes;
  std::map<std::pair<int64_t, int64_t>, int64_t> of_class;
  for (size_t i = 0; i < labels.size(); ++i) {
    ++sizes[folds[i]];
    ++of_class[{folds[i], labels[i]}];
  }
  ASSERT_EQ(sizes.size(), 5u);
  for (int64_t fold = 0; fold < 5; ++fold) {
    EXPECT_EQ(sizes[fold], fold < 3 ? 21 : 20);
    for (int64_t label = 0; label < 3; ++label) {
      const auto share = std::ranges::count(labels, label) / 5;
      EXPECT_GE((of_class[{fold, label}]), share);
      EXPECT_LE((of_class[{fold, label}]), share + 1);
    }
  }
}

TEST(Folds, FollowFromTheSeedAlone) {
  const auto labels = made_labels();
  EXPECT_EQ(assign_folds(labels, 5, 7), assign_folds(labels, 5, 7));
  EXPECT_NE(assign_folds(labels, 5, 7), assign_folds(labels, 5, 8));
}

TEST(Folds, AreNotMoreThanTheSamples) {
  const std::vector<int64_t> labels(3, 0);
  EXPECT_NO_THROW(assign_folds(labels, 3, 1));
  for (const int64_t count : {0, 1, 4}) EXPECT_THROW(assign_folds(labels, count, 1), UserError) << count;
}

TEST(HeldOutSamples, AreOfEachClassItsShareAndExactlyAsManyAsAskedFor) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 300; ++i) labels.push_back(i % 4);
  const auto chosen = choose_evenly(labels, 30, 7, 1);
  std::map<int64_t, int64_t> of_class;
  for (size_t i = 0; i < labels.size(); ++i) of_class[labels[i]] += chosen[i] ? 1 : 0;
  EXPECT_EQ(std::ranges::count(chosen, true), 30);
  for (const auto& [label, count] : of_class) {
    EXPECT_GE(count, 7) << label;
    EXPECT_LE(count, 8) << label;
  }
  EXPECT_EQ(chosen, choose_evenly(labels, 30, 7, 1));
  EXPECT_NE(chosen, choose_evenly(labels, 30, 8, 1));
  EXPECT_NE(chosen, choose_evenly(labels, 30, 7, 2));
}

TEST(HeldOutSamples, LeaveOneOfEachClass) {
  const std::vector<int64_t> labels{0, 0, 0, 1, 2, 2};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto chosen = choose_evenly(labels, 5, seed, 1);
    for (int64_t label = 0; label < 3; ++label) {
      int64_t kept = 0;
      for (size_t i = 0; i < labels.size(); ++i) kept += labels[i] == label && !chosen[i] ? 1 : 0;
      EXPECT_GE(kept, 1) << "class " << label << ", seed " << seed;
    }
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
  EXPECT_EQ(problems_of({{"folds", "5"}, {"fold", "4"}}), "");
  EXPECT_EQ(problems_of({{"val_fraction", "0.2"}}), "");
  EXPECT_NE(problems_of({{"folds", "5"}, {"fold", "5"}}).find("dataset.fold: expected 0 to 4"), std::string::npos);
  EXPECT_NE(problems_of({{"folds", "1"}}).find("dataset.folds: expected 2 or more"), std::string::npos);
  EXPECT_NE(problems_of({{"fold", "1"}}).find("dataset.fold: of how many?"), std::string::npos);
  EXPECT_NE(problems_of({{"folds", "5"}, {"val_fraction", "0.1"}}).find("dataset.val_fraction: folds holds out val"),
            std::string::npos);
}

}  // namespace
}  // namespace ddprun
