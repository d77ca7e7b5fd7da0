// SPDX-License-Identifier: MIT
#include "data/data_survey.h"

#include "data/sample_order.h"
#include "support/error_of.h"
#include "support/toy.h"

#include <ddprun/objective.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ToyDataset;

// Sample n is the number n twice, of class n % 3 in training and of class 2 else.
class Counting : public ToyDataset {
 public:
  using ToyDataset::ToyDataset;
  DataSpec spec() const override { return {.sample_shape = {2}, .classes = 4}; }
  Batch get(Split split, std::span<const int64_t> indices) const override {
    const auto index = at::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()), at::kLong);
    const auto target = split == Split::kTrain ? index.remainder(3) : at::full_like(index, 2);
    return {.input = index.to(at::kFloat).unsqueeze(1).expand({-1, 2}).contiguous(), .target = target, .index = index};
  }
};

TEST(SpreadNumbers, HaveTheFirstAndTheLast) {
  EXPECT_THAT(spread_numbers(10, 4), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(spread_numbers(3, 16), ElementsAre(0, 1, 2));
  EXPECT_THAT(spread_numbers(5, 1), ElementsAre(0));
  EXPECT_THAT(spread_numbers(0, 4), ElementsAre());
}

TEST(DataSurvey, CountsClassesAndValues) {
  const auto splits = survey_splits(Counting(100, 7), 1'000'000);
  ASSERT_EQ(splits.size(), 2U) << "there is no test split";
  const auto& train = splits[0];
  EXPECT_EQ(train.samples, 100);
  EXPECT_EQ(train.looked_at, 100);
  EXPECT_EQ(train.counted, 100);
  EXPECT_THAT(train.per_class, ElementsAre(34, 33, 33, 0));
  EXPECT_EQ(train.input().type, "float32");
  EXPECT_EQ(train.input().range.least, 0);
  EXPECT_EQ(train.input().range.greatest, 99);
  EXPECT_DOUBLE_EQ(train.input().range.mean, 49.5);
  EXPECT_NEAR(train.input().range.std, 28.866, 1e-3);
  EXPECT_EQ(train.target().range.count, 0) << "of numbers of classes nothing is said";
  EXPECT_THAT(splits[1].per_class, ElementsAre(0, 0, 7, 0));
}

TEST(DataSurvey, LooksAtSomeOfManyAndSaysHowMany) {
  const auto train = survey_splits(Counting(10'000, 0), 1000).front();
  EXPECT_EQ(train.samples, 10'000);
  EXPECT_EQ(train.looked_at, 500);
  EXPECT_EQ(train.counted, 500);
  EXPECT_EQ(train.input().range.greatest, 9999);
}

// The second column is 0 but for the sample 500, and has the deviation 1; or all of it is a thousandth of the first.
class TwoColumns : public Counting {
 public:
  explicit TwoColumns(bool rare) : Counting(1000, 0), rare_(rare) {}
  Batch get(Split split, std::span<const int64_t> indices) const override {
    auto batch = Counting::get(split, indices);
    batch.input.mul_(0.01);
    const auto second = batch.input.select(1, 1);
    if (rare_)
      second.mul_(1e-3).add_(batch.index.eq(500), std::sqrt(1000.0));
    else
      second.mul_(1e-3);
    return batch;
  }

 private:
  bool rare_;
};

TEST(DataSurvey, DoubtsColumnsOfDifferentScaleButNotOneThatIsMostlyZero) {
  EXPECT_THAT(doubt_of_scales(TwoColumns(/*rare=*/false)),
              HasSubstr("the deviation of column 0, counted from 0, is 2.89"));
  EXPECT_EQ(doubt_of_scales(TwoColumns(/*rare=*/true)), "");
  EXPECT_EQ(doubt_of_scales(Counting(100, 7)), "");
  EXPECT_EQ(survey_splits(TwoColumns(/*rare=*/true), 1'000'000).front().scales, "");
}

class Knowing : public Counting {
 public:
  using Counting::Counting;
  at::Tensor labels(Split split) const override { return at::arange(size(split), at::kLong).remainder(classes); }
  int64_t classes = 2;
};

TEST(DataSurvey, CountsAllWhereTheLabelsAreKnownWithoutTheSamples) {
  Knowing dataset(10'000, 0);
  const auto train = survey_splits(dataset, 1000).front();
  EXPECT_EQ(train.looked_at, 500);
  EXPECT_EQ(train.counted, 10'000);
  EXPECT_THAT(train.per_class, ElementsAre(5000, 5000, 0, 0));
  dataset.classes = 5;
  EXPECT_THAT(error_of([&] { survey_splits(dataset, 1000); }), HasSubstr("sample 4 has the class 4"));
}

// Classes of symbols, of which the first three of each sample do not count.
class PartlyIgnored : public Counting {
 public:
  using Counting::Counting;
  Batch get(Split split, std::span<const int64_t> indices) const override {
    auto batch = Counting::get(split, indices);
    batch.input = batch.target.unsqueeze(1).expand({-1, 4}).contiguous();
    batch.target = batch.input.clone();
    batch.target.slice(1, 0, 3).fill_(kIgnoredClass);
    return batch;
  }
  DataSpec spec() const override { return {.sample_shape = {4}, .classes = 4}; }
};

TEST(DataSurvey, LeavesOutTargetsThatDoNotCount) {
  const auto train = survey_splits(PartlyIgnored(6, 0), 1000).front();
  EXPECT_THAT(train.per_class, ElementsAre(2, 2, 2, 0));
}

// A regression with a hole in its data.
class Values : public ToyDataset {
 public:
  using ToyDataset::ToyDataset;
  DataSpec spec() const override { return {.sample_shape = {8}}; }
  Batch get(Split split, std::span<const int64_t> indices) const override {
    auto batch = ToyDataset::get(split, indices);
    batch.input[0][0] = std::numeric_limits<float>::quiet_NaN();
    batch.target = batch.index.to(at::kFloat) + 1e6;
    return batch;
  }
};

TEST(DataSurvey, SaysTheRangeOfTargetsThatAreNoClasses) {
  const auto train = survey_splits(Values(50, 0), 1'000'000).front();
  EXPECT_THAT(train.per_class, ElementsAre());
  EXPECT_EQ(train.input().range.not_finite, 1);
  EXPECT_EQ(train.target().range.count, 50);
  EXPECT_NEAR(train.target().range.mean, 1e6 + 24.5, 0.1);
  EXPECT_NEAR(train.target().range.std, 14.43, 0.1) << "of a spread that is small beside the mean";
}

TEST(DataSurvey, SaysTheRangeOfEachExtra) {
  const auto train = survey_splits(testing::MaskedToyDataset(50, 0), 1'000'000).front();
  ASSERT_EQ(train.parts.size(), 4U);
  const auto &factor = train.parts[2], &mask = train.parts[3];
  EXPECT_EQ(factor.name + " " + factor.type, "factor float32");
  EXPECT_EQ(factor.range.count, 50);
  EXPECT_EQ(mask.name + " " + mask.type, "mask bool");
  EXPECT_EQ(mask.range.count, 50 * 8);
  EXPECT_NEAR(mask.range.mean, 0.7, 0.1);
}

class Shaken : public Counting {
 public:
  Shaken(int64_t train, bool each_time) : Counting(train, 0), each_time_(each_time) {}
  void augment(Batch& batch, const AugmentKey& key) const override {
    const auto odd = batch.index.remainder(2).to(at::kFloat).unsqueeze(1);
    batch.input = batch.input + odd * (each_time_ ? static_cast<double>(key.epoch + 1) : 1.0);
  }

 private:
  bool each_time_;
};

TEST(DataSurvey, SaysWhatAugmentationChanges) {
  const auto differently = survey_augmentation(Shaken(8, true), 1), alike = survey_augmentation(Shaken(8, false), 1),
             none = survey_augmentation(Counting(8, 0), 1);
  EXPECT_EQ(differently.samples, 8);
  EXPECT_EQ(differently.changed, 4);
  EXPECT_EQ(differently.otherwise, 4);
  EXPECT_EQ(alike.changed, 4);
  EXPECT_EQ(alike.otherwise, 0);
  EXPECT_EQ(none.changed, 0);
  EXPECT_EQ(survey_augmentation(Values(8, 0), 1).changed, 0) << "a NaN that stays is no change";
}

}  // namespace
}  // namespace ddprun
