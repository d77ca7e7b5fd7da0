// SPDX-License-Identifier: MIT
#include "evaluation_table.h"
#include "progress_bar.h"
#include "shown_text.h"
#include "step_times.h"
#include "terminal_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::console {
namespace {

using ::testing::ElementsAre;

TEST(ConsoleText, ReadsAsPeopleSayIt) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {grouped(7), "7"},
      {grouped(999), "999"},
      {grouped(1199882), "1,199,882"},
      {grouped(-1000), "-1,000"},
      {grouped(-100), "-100"},
      {epochs_text(1), "1 epoch"},
      {epochs_text(2), "2 epochs"},
      {epochs_text(0.05096), "0.051 epochs"},
      {epochs_text(99.96), "100 epochs"},
      {epochs_text(4000), "4,000 epochs"},
      {duration(0.0523), "52 ms"},
      {duration(8.34), "8.3 s"},
      {duration(83), "1 min 23 s"},
      {duration(7500), "2 h 05 min"},
      {clock(8), "0:08"},
      {clock(3723), "1:02:03"},
      {clock(-5), "0:00"},
      {part_time(0.44), "0.4 s"},
      {part_time(83), "1:23"},
      {world_text(4, 1), "1 x 4"},
      {world_text(32, 4), "4 x 8"},
      {world_text(3, 2), "3 workers on 2 nodes"},
      {metric("top5", 0.925), "top5 92.50 %"},
      {metric("val/top10", 1), "val/top10 100.00 %"},
      {metric("topology", 0.5), "topology 0.5"},
      {metric("accuracy", 0.98434), "accuracy 98.43 %"},
      {metric("val/accuracy", 1), "val/accuracy 100.00 %"},
      {metric("loss", 0.051234), "loss 0.05123"},
      {metric("loss", 0.0009805), "loss 9.805e-04"},
      {shown("a\033[31mb\tc\x7F\xC2\x9B" + std::string("2J größer")), "a?[31mb?c??2J größer"}};
  for (const auto& [text, expected] : cases) EXPECT_EQ(text, expected);
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

TEST(ConsoleText, MetricsOfManyClassesAreLeftOut) {
  Values values{{"val/loss", 1}, {"val/f1", 2}, {"val/gan/real", 0.5}, {"val/gan/fake", 0.5}};
  const auto few = values;
  EXPECT_FALSE(leave_out_classes(values, "val/"));
  for (const auto* name : {"val/f1/cat", "val/f1/a/b", "val/f1/owl", "val/f1/yak"}) values.emplace_back(name, 0.5);
  EXPECT_TRUE(leave_out_classes(values, "val/"));
  EXPECT_EQ(values, few);
}

TEST(ProgressBar, FillsWithTheShareDoneAndIsNeverWiderThanTheTerminal) {
  EXPECT_EQ(bar_text("epoch 1/2", 5, 10, "", 60), "epoch 1/2  50% [###############---------------] 5/10");
  EXPECT_EQ(bar_text("epoch 1/2", 10, 10, "", 60), "epoch 1/2 100% [##############################] 10/10");
  EXPECT_EQ(bar_text("x", 3, 0, "", 40).substr(0, 6), "x   0%") << "an unknown total is no division by zero";
  for (int width = 1; width <= 200; ++width) {
    const auto text = bar_text("epoch 10/10 val", 123456, 860000, "12,345/s, 1:02:03 left  loss 0.01234", width);
    EXPECT_LT(static_cast<int>(text.size()), std::max(width, 1)) << width;
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

TEST(EvaluationTable, LeavesOutWhatDoesNotFitButNotTheLastColumnAndTheEvaluationLast) {
  EXPECT_THAT(EvaluationTable().add({{"epoch", "1/2"}, {"loss", "0.25"}, {"accuracy", "50 %"}, {"time", "0:08"}}, 30),
              ElementsAre("  epoch     loss     time", "    1/2     0.25     0:08"));
  const EvaluationTable::Row many{{"epoch", "1/2"},  {"step", "40"}, {"loss", "2"},   {"val loss", "1"},
                                  {"val top5", "9"}, {"lr", "3"},    {"time", "0:08"}};
  EXPECT_EQ(EvaluationTable().add(many, 50).front(), "  epoch     loss  val loss  val top5     time");
}

// A row of two ranks, one of which does twice the work in `seconds`.
MetricRow system_row(int64_t step, double seconds, double slowest) {
  return {.split = "system",
          .step = step,
          .values = {{"step_seconds", seconds},
                     {"forward_seconds", 0.75 * seconds},
                     {"wait_seconds", 0.25 * seconds},
                     {"slowest_rank", slowest},
                     {"slowest_rank_seconds", seconds}}};
}

TEST(StepTimes, SayWhereTheTimeOfTheStepsWentWhateverTheRows) {
  StepTimes times(100);
  EXPECT_EQ(times.phases(), "");
  times.add(system_row(109, 0.2, 1));
  times.add(system_row(110, 0.1, 0));  // one step, of the rest of an epoch
  EXPECT_EQ(times.phases(), "190 ms: forward 75 %, waiting for others 25 %");
}

TEST(StepTimes, NameARankThatIsTheSlowestAgainAndAgain) {
  StepTimes times;
  for (const int64_t step : {8, 9}) times.add(system_row(step, 0.01, 1));
  times.add(system_row(10, 0.01, 0));
  EXPECT_EQ(times.slowest(), "rank 1 in 90 % of the steps, 33 % above the mean");
  times.add(system_row(20, 0.01, 0));
  EXPECT_EQ(times.slowest(), "") << "both are, in turn";
}

}  // namespace
}  // namespace ddprun::console
