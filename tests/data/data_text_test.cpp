// SPDX-License-Identifier: MIT
#include "data/data_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace ddprun {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SplitSurvey split_of(Split split, std::vector<int64_t> per_class) {
  int64_t samples = 0;
  for (const auto count : per_class) samples += count;
  return {.split = split,
          .samples = samples,
          .looked_at = samples,
          .parts = {{"input", "float32", {3, 8, 8}, {.count = 10, .least = -1, .greatest = 1, .mean = 0, .std = 0.5}},
                    {"target", "int64", {}, {}}},
          .counted = samples,
          .per_class = std::move(per_class)};
}

DataSurvey survey_of(std::vector<int64_t> train, std::vector<int64_t> val) {
  return {.experiment = "pets",
          .dataset = "image_folder",
          .spec = {.sample_shape = {3, 8, 8}, .classes = static_cast<int64_t>(train.size())},
          .splits = {split_of(Split::kTrain, std::move(train)), split_of(Split::kVal, std::move(val))},
          .augmentation = {.samples = 16}};
}

std::vector<int64_t> rising(int64_t classes) {
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < classes; ++i) counts.push_back(1000 + i);
  return counts;
}

TEST(DataText, HasARowForEachOfFewClasses) {
  const auto text = data_text(survey_of({1200, 3}, {7, 0}));
  EXPECT_THAT(text, HasSubstr("pets has the dataset image_folder: samples of 3 x 8 x 8 float32, 2 classes\n"));
  EXPECT_THAT(text, HasSubstr("class  train  val\n0      1,200    7\n1          3    0\n"));
  EXPECT_THAT(text, HasSubstr("Augmentation: none"));
}

TEST(DataText, HasARowForEachExtra) {
  auto survey = survey_of({2, 3}, {});
  survey.splits[0].parts.push_back({"age", "int64", {}, {.count = 5, .least = 3, .greatest = 9}});
  survey.splits[0].parts.push_back({"mask", "bool", {3, 8}, {.count = 120, .least = 1, .greatest = 1, .mean = 1}});
  const auto text = data_text(survey);
  EXPECT_THAT(text, HasSubstr("3 x 8 x 8 float32 with age of one\n  int64 and mask of 3 x 8 bool, 2 classes"));
  EXPECT_THAT(text, ContainsRegex("\n  mask +1 +1 +1 +0\n"));
  EXPECT_THAT(text, HasSubstr("train: all numbers of mask are 1"));
}

TEST(DataText, HasALineForManyClassesAndLeavesTheRowsToThePage) {
  const auto survey = survey_of(rising(100), std::vector<int64_t>(100, 50));
  EXPECT_THAT(data_text(survey), HasSubstr("Each of the 100 classes has 1,000 to 1,099 in train, 50 in val; all"));
  EXPECT_EQ(classes_table(survey).rows.size(), 100U);
}

TEST(DataText, FitsATerminalWhateverTheNames) {
  auto survey = survey_of({5, 0}, {1, 1});
  survey.spec.class_names = {std::string(200, 'x'), "größer, 猫 und so weiter und so weiter und so weiter"};
  survey.experiment = std::string(60, 'e');
  std::istringstream lines(data_text(survey));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 90U) << line;
}

TEST(DataText, SaysOfHowManySamplesItSays) {
  auto survey = survey_of({500, 500}, {1, 1});
  survey.splits[0].looked_at = survey.splits[0].counted = 64;
  EXPECT_THAT(data_text(survey),
              HasSubstr("The values and counts are those of 64 of 1,000 of train, spread evenly.\n"));
  survey.splits[0].counted = 1000;
  EXPECT_EQ(coverage_text(survey), "The values are those of 64 of 1,000 of train, spread evenly.");
}

TEST(DataText, HasNoRangeWhereNoNumberIsFinite) {
  auto survey = survey_of({5, 6}, {1, 1});
  survey.splits[0].parts[0].range = {.not_finite = 88};
  EXPECT_THAT(data_text(survey), ContainsRegex("train +11 +- +- +- +-\n"));
  EXPECT_THAT(data_text(survey), HasSubstr("train: 88 numbers of the inputs are NaN or infinite"));
}

TEST(Doubts, NameWhatLooksLikeAMistake) {
  EXPECT_THAT(doubts(survey_of({5, 6}, {0, 1})), IsEmpty());
  auto survey = survey_of({5, 0, 0}, {1, 1, 1});
  survey.spec.class_names = {"cat", "dog", "cow"};
  survey.splits[1].parts[0].range.not_finite = 3;
  survey.splits[1].per_class = {0, 0, 0};
  survey.splits[0].parts[0].range.least = 1;
  EXPECT_THAT(
      doubts(survey),
      ElementsAre("train: all numbers of the inputs are 1", "val: 3 numbers of the inputs are NaN or infinite",
                  "val: no target is a class, so that nothing counts", "2 classes have no training sample: dog, cow"));
}

}  // namespace
}  // namespace ddprun
