// SPDX-License-Identifier: MIT
// What TensorBoard's own readers make of the files is tests/end_to_end/tensorboard_test.py's to say.
#include "support/temporary_folder.h"
#include "tensorboard/event_file.h"
#include "tensorboard/pictures.h"
#include "tensorboard/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::tensorboard {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class EventFileTest : public FolderTest {};

TEST_F(EventFileTest, TwoOfOneMomentAreTwoFiles) {
  const EventFile first(folder_ / "events", 1.5), second(folder_ / "events", 1.5);
  EXPECT_NE(first.path(), second.path());
  EXPECT_THAT(first.path().filename().string(), StartsWith("events.out.tfevents.0000000001."));
}

PredictionTable three_classes() {
  PredictionTable table{.split = "val", .class_names = {"cat", "a|b", "<i>"}};
  const ShownImage white{.channels = 1, .height = 2, .width = 2, .bytes = {255, 255, 255, 255}};
  table.rows = {{.id = 4, .image = white, .guess = 0, .truth = 0, .scores = {0.9, 0.1, 0}},
                {.id = 7, .image = white, .guess = 2, .truth = 1, .scores = {0.2, 0.3, 0.5}}};
  return table;
}

TEST(TensorBoardTables, AreMarkdown) {
  PredictionTable values, long_one{.class_names = {"a"}};
  values.rows = {{.id = 1, .scores = {0.25}, .true_values = {0.5, 1}}};
  long_one.rows.resize(101, {.guess = 0, .truth = 0, .scores = {1}});
  const ConfusionTable many{.class_names = std::vector<std::string>(41), .counts = std::vector<int64_t>(41 * 41)};
  const std::vector<std::pair<std::string, std::string>> cases{
      {prediction_table(three_classes()),  // mistakes come first, and names are no markup
       "|---|---|---|---|\n| 7 | a\\|b | **\\<i>** | 0.5 |\n| 4 | cat | cat | 0.9 |\n"},
      {prediction_table(values), "| 1 | 0.5, 1 | 0.25 |\n"},
      {prediction_table(long_one), "\n100 of 101\n"},
      {confusion_table({.class_names = {"cat", "a|b"}, .counts = {3, 1, 0, 12}}),
       "| truth \\ guess | cat | a\\|b |\n|---|---|---|\n| cat | 3 | **1** |\n| a\\|b | 0 | 12 |\n"},
      {confusion_table(many), "41 classes are too many for a table"},
      {verbatim("a:\n  b: 1\n\n"), "    a:\n      b: 1\n\n"}};
  for (const auto& [text, expected] : cases) EXPECT_THAT(text, HasSubstr(expected));
}

bool same(const uint8_t* pixel, Colour colour) {
  return pixel[0] == colour.red && pixel[1] == colour.green && pixel[2] == colour.blue;
}

int64_t pixels_of(const Picture& picture, Colour colour) {
  int64_t count = 0;
  for (size_t i = 0; i < picture.bytes.size(); i += Picture::kChannels)
    count += same(&picture.bytes[i], colour) ? 1 : 0;
  return count;
}

TEST(TensorBoardPictures, AGridHasAFrameForEachGuess) {
  const auto grid = prediction_grid(three_classes());
  ASSERT_TRUE(grid);
  const int64_t frame = 62 * 62 - 56 * 56;  // 2 x 2 pixels, enlarged to 56 x 56
  EXPECT_EQ(pixels_of(*grid, {46, 139, 87}), frame);
  EXPECT_EQ(pixels_of(*grid, {205, 51, 51}), frame);
}

TEST(TensorBoardPictures, WhatTheModelMakesOfAnImageIsBesideItInTheSameFrame) {
  const ShownImage white{.channels = 1, .height = 56, .width = 56, .bytes = std::vector<uint8_t>(56 * 56, 255)};
  const ShownImage grey{.channels = 1, .height = 56, .width = 56, .bytes = std::vector<uint8_t>(56 * 56, 100)};
  const PredictionTable table{.split = "val", .rows = {{.id = 1, .image = white, .output = grey}}};
  const auto grid = prediction_grid(table);
  ASSERT_TRUE(grid);
  EXPECT_EQ(grid->width, 2 * 56 + 3 * 3 + 2 * 4);
  EXPECT_EQ(pixels_of(*grid, {100, 100, 100}), 56 * 56);
  EXPECT_EQ(pixels_of(*grid, {160, 160, 160}), (2 * 56 + 3 * 3) * 62 - 2 * 56 * 56);  // nobody can say what is right
  EXPECT_THAT(prediction_table(table), HasSubstr("| 1 |  | an image |"));
}

TEST(TensorBoardPictures, NoImagesNoGrid) {
  auto table = three_classes();
  for (auto& row : table.rows) row.image = {};
  EXPECT_FALSE(prediction_grid(table));
}

TEST(TensorBoardPictures, ConfusionIsDarkWhereAllAre) {
  const auto picture = confusion_picture({.class_names = {"a", "b"}, .counts = {3, 0, 0, 0}});
  EXPECT_EQ(picture.height, 480);
  EXPECT_EQ(pixels_of(picture, {0, 0, 255}), 240 * 240);  // a class without samples is all white
  EXPECT_EQ(pixels_of(picture, {255, 255, 255}), 3 * 240 * 240);
}

}  // namespace
}  // namespace ddprun::tensorboard
