// SPDX-License-Identifier: MIT
#include "class_values.h"
#include "confusion_text.h"
#include "evaluation_table.h"
#include "layer_table.h"
#include "progress_bar.h"
#include "shown_text.h"
#include "step_times.h"
#include "terminal_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::console {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ConsoleText, NumbersAreGroupedByThousands) {
  EXPECT_EQ(grouped(7), "7");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1199882), "1,199,882");
  EXPECT_EQ(grouped(-1000), "-1,000");
  EXPECT_EQ(grouped(-100), "-100");
}

TEST(ConsoleText, EpochsAreWholeNumbersFromAHundredOn) {
  EXPECT_EQ(epochs_text(1), "1 epoch");
  EXPECT_EQ(epochs_text(2), "2 epochs");
  EXPECT_EQ(epochs_text(0.05096), "0.051 epochs");
  EXPECT_EQ(epochs_text(99.96), "100 epochs");
  EXPECT_EQ(epochs_text(4000), "4,000 epochs");
}

TEST(ConsoleText, TimesReadAsPeopleSayThem) {
  EXPECT_EQ(duration(0.0523), "52 ms");
  EXPECT_EQ(duration(8.34), "8.3 s");
  EXPECT_EQ(duration(83), "1 min 23 s");
  EXPECT_EQ(duration(7500), "2 h 05 min");
  EXPECT_EQ(clock(8), "0:08");
  EXPECT_EQ(clock(3723), "1:02:03");
  EXPECT_EQ(clock(-5), "0:00");
  EXPECT_EQ(part_time(0.44), "0.4 s");
  EXPECT_EQ(part_time(83), "1:23");
}

TEST(ConsoleText, NodesMayHaveUnequallyManyWorkers) {
  EXPECT_EQ(world_text(4, 1), "1 x 4");
  EXPECT_EQ(world_text(32, 4), "4 x 8");
  EXPECT_EQ(world_text(3, 2), "3 workers on 2 nodes");
}

TEST(ConsoleText, AccuracyAndTopKArePercentages) {
  EXPECT_EQ(metric("top5", 0.925), "top5 92.50 %");
  EXPECT_EQ(metric("val/top10", 1), "val/top10 100.00 %");
  EXPECT_EQ(metric("topology", 0.5), "topology 0.5");
  EXPECT_EQ(metric("accuracy", 0.98434), "accuracy 98.43 %");
  EXPECT_EQ(metric("val/accuracy", 1), "val/accuracy 100.00 %");
  EXPECT_EQ(metric("loss", 0.051234), "loss 0.05123");
  EXPECT_EQ(metric("loss", 0.0009805), "loss 9.805e-04");
}

TEST(ConsoleText, LinesBreakBetweenItemsAlone) {
  EXPECT_THAT(broken_lines("17 ms: forward 31 %, backward 65 %, optimizer 3 %", 36),
              ElementsAre("17 ms: forward 31 %, backward 65 %,", "optimizer 3 %"));
  EXPECT_THAT(broken_lines("val/loss 0.3  val/accuracy 89.67 %", 20),
              ElementsAre("val/loss 0.3", "val/accuracy 89.67 %"));
  EXPECT_THAT(broken_lines("/a/path with a name/that is too wide", 10),
              ElementsAre("/a/path with a name/that is too wide"));
  EXPECT_THAT(broken_lines("", 10), ElementsAre(""));
}

TEST(ConsoleText, EscapeCodesAreShownAndNotObeyed) {
  EXPECT_EQ(shown("a\033[31mb\tc\x7F\xC2\x9B"
                  "2J größer"),
            "a?[31mb?c??2J größer");
}

TEST(ProgressBar, FillsWithTheShareDone) {
  EXPECT_EQ(bar_text("epoch 1/2", 5, 10, "", 60), "epoch 1/2  50% [###############---------------] 5/10");
  EXPECT_EQ(bar_text("epoch 1/2", 10, 10, "", 60), "epoch 1/2 100% [##############################] 10/10");
}

TEST(ProgressBar, IsNeverWiderThanTheTerminal) {
  for (int width = 1; width <= 200; ++width) {
    const auto text = bar_text("epoch 10/10 val", 123456, 860000, "12,345/s, 1:02:03 left  loss 0.01234", width);
    EXPECT_LT(static_cast<int>(text.size()), std::max(width, 1)) << width;
  }
}

TEST(ProgressBar, AnUnknownTotalIsNoDivisionByZero) { EXPECT_EQ(bar_text("x", 3, 0, "", 40).substr(0, 6), "x   0%"); }

const ConfusionTable kAnimals{.class_names = {"cat", "dog", "owl", "yak"},
                              .counts = {7, 2, 1, 0,  //
                                         5, 5, 0, 0,  //
                                         0, 1, 3, 0,  //
                                         0, 0, 0, 0}};

TEST(ConfusionText, TheMostFrequentConfusionsComeFirst) {
  EXPECT_THAT(worst_confusions(kAnimals, 5), ElementsAre("dog taken for cat: 5 times", "cat taken for dog: 2 times",
                                                         "cat taken for owl: 1 time", "owl taken for dog: 1 time"));
  EXPECT_THAT(worst_confusions(kAnimals, 1), ElementsAre("dog taken for cat: 5 times"));
  EXPECT_THAT(worst_confusions({.class_names = {"a", "b"}, .counts = {9, 0, 0, 9}}, 5), IsEmpty());
}

TEST(ConfusionText, EveryClassWithSamplesHasItsShareInLinesOfTheWidth) {
  EXPECT_THAT(class_accuracies(kAnimals, 20, 60), ElementsAre("cat 70.0 %   dog 50.0 %   owl 75.0 %"));
  EXPECT_THAT(class_accuracies(kAnimals, 20, 23), ElementsAre("cat 70.0 %   dog 50.0 %", "owl 75.0 %"));
}

TEST(ConfusionText, OfTooManyClassesTheWorstAreShown) {
  EXPECT_THAT(class_accuracies(kAnimals, 2, 60), ElementsAre("dog 50.0 %   cat 70.0 %"));
}

TEST(ConfusionText, TwentyClassesFitOnAScreen) {
  ConfusionTable table{.counts = std::vector<int64_t>(400, 1)};
  for (int i = 0; i < 20; ++i) table.class_names.push_back("a rather long name " + std::to_string(i));
  EXPECT_LE(class_accuracies(table, 20, 60).size() + worst_confusions(table, 5).size(), 24U);
}

TEST(ClassValues, AreTakenOutWhereTheyWouldFloodALine) {
  Values values{{"val/loss", 1}, {"val/f1", 2}};
  for (const auto* name : {"val/f1/cat", "val/f1/a/b", "val/f1/owl", "val/f1/yak"}) values.emplace_back(name, 0.5);
  for (const auto* name : {"val/gan/real", "val/gan/fake"}) values.emplace_back(name, 0.5);
  const auto groups = take_class_values(values, "val/");
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].metric, "f1");
  EXPECT_EQ(groups[0].values, (Values{{"cat", 0.5}, {"a/b", 0.5}, {"owl", 0.5}, {"yak", 0.5}}));
  EXPECT_EQ(values, (Values{{"val/loss", 1}, {"val/f1", 2}, {"val/gan/real", 0.5}, {"val/gan/fake", 0.5}}));
}

TEST(LayerTable, HasALineForEachLayer) {
  EXPECT_THAT(layer_table({{"conv1", "Conv2d", "32 x 26 x 26", 320}, {"fc", "Linear", "10", 1179776}}, 10, 80),
              ElementsAre("layer  kind    output        parameters",  //
                          "conv1  Conv2d  32 x 26 x 26         320",  //
                          "fc     Linear  10             1,179,776"));
}

TEST(LayerTable, ManyLayersArePutTogetherByTheFirstPartOfTheirNames) {
  std::vector<LayerSummary> layers{{"stem", "Conv2d", "64 x 8 x 8", 10}};
  for (int i = 0; i < 9; ++i) layers.push_back({"block." + std::to_string(i), "Conv2d", "64 x 4 x 4", 5});
  EXPECT_THAT(layer_table(layers, 5, 80), ElementsAre("layer    kind      output      parameters",  //
                                                      "stem     Conv2d    64 x 8 x 8          10",  //
                                                      "block.*  9 layers  64 x 4 x 4          45"));
  EXPECT_THAT(layer_table(layers, 1, 80), ElementsAre(::testing::_, ::testing::_, "and 1 more"));
}

TEST(LayerTable, IsNeverWiderThanTheTerminal) {
  for (size_t width = 1; width < 60; ++width) {
    for (const auto& line : layer_table({{"größer", "Conv2d", "32 x 26 x 26", 320}}, 10, width))
      EXPECT_LE(line.size(), std::max<size_t>(width, 3) + 2) << line;
  }
}

TEST(EvaluationTable, NamesItsColumnsOnceAndAgainWhereTheyChange) {
  EvaluationTable table;
  EXPECT_THAT(table.add({{"epoch", "1/2"}, {"val loss", "0.25"}, {"time", "0:08"}}, 80),
              ElementsAre("  epoch  val loss     time", "    1/2      0.25     0:08"));
  EXPECT_THAT(table.add({{"epoch", "2/2"}, {"val loss", "0.125"}, {"time", "0:07"}}, 80),
              ElementsAre("    2/2     0.125     0:07"));
  EXPECT_THAT(table.add({{"epoch", "2/2"}, {"val top5", "1"}, {"time", "0:07"}}, 80), ::testing::SizeIs(2));
}

TEST(EvaluationTable, LeavesOutWhatDoesNotFitButNotTheLastColumn) {
  EvaluationTable table;
  const auto lines = table.add({{"epoch", "1/2"}, {"loss", "0.25"}, {"accuracy", "50 %"}, {"time", "0:08"}}, 30);
  EXPECT_THAT(lines, ElementsAre("  epoch     loss     time", "    1/2     0.25     0:08"));
}

TEST(EvaluationTable, KeepsTheEvaluationLongest) {
  EvaluationTable table;
  const auto lines = table.add({{"epoch", "1/2"},
                                {"step", "40"},
                                {"loss", "2"},
                                {"val loss", "1"},
                                {"val top5", "9"},
                                {"lr", "3"},
                                {"time", "0:08"}},
                               50);
  EXPECT_EQ(lines.front(), "  epoch     loss  val loss  val top5     time");
}

const RankTable kTwoRanks{.columns = {"step_seconds", "data_seconds", "forward_seconds", "backward_seconds",
                                      "wait_seconds", "optimizer_seconds", "logging_seconds", "other_seconds"},
                          .rows = {{0.010, 0, 0.002, 0.002, 0.006, 0, 0, 0}, {0.010, 0, 0.005, 0.005, 0, 0, 0, 0}}};

TEST(StepTimes, SayWhereTheTimeWentAndWhoIsSlowest) {
  StepTimes times;
  EXPECT_EQ(times.phases(), "");
  times.add(kTwoRanks);
  times.add(kTwoRanks);
  EXPECT_EQ(times.phases(), "10 ms: forward 35 %, backward 35 %, waiting for others 30 %");
  EXPECT_EQ(times.slowest(), "rank 1, 43 % above the mean");
}

TEST(StepTimes, AreMeansOverTheStepsAndNotOverTheTables) {
  StepTimes times(100);
  const auto table = [](int64_t step, double seconds) {
    return RankTable{.step = step, .columns = {"step_seconds", "forward_seconds"}, .rows = {{seconds, seconds}}};
  };
  times.add(table(109, 0.2));
  times.add(table(110, 0.1));  // one step, of the rest of an epoch
  EXPECT_EQ(times.phases(), "190 ms: forward 100 %");
}

}  // namespace
}  // namespace ddprun::console
