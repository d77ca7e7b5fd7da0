// SPDX-License-Identifier: MIT
#include "progress_bar.h"
#include "terminal_text.h"

#include <gtest/gtest.h>

namespace ddprun::console {
namespace {

TEST(ConsoleText, NumbersAreGroupedByThousands) {
  EXPECT_EQ(grouped(7), "7");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1199882), "1,199,882");
  EXPECT_EQ(grouped(-1000), "-1,000");
  EXPECT_EQ(grouped(-100), "-100");
}

TEST(ConsoleText, TimesReadAsPeopleSayThem) {
  EXPECT_EQ(duration(8.34), "8.3 s");
  EXPECT_EQ(duration(83), "1 min 23 s");
  EXPECT_EQ(duration(7500), "2 h 05 min");
  EXPECT_EQ(clock(8), "0:08");
  EXPECT_EQ(clock(3723), "1:02:03");
  EXPECT_EQ(clock(-5), "0:00");
}

TEST(ConsoleText, AccuracyIsAPercentage) {
  EXPECT_EQ(metric("accuracy", 0.98434), "accuracy 98.43 %");
  EXPECT_EQ(metric("val/accuracy", 1), "val/accuracy 100.00 %");
  EXPECT_EQ(metric("loss", 0.051234), "loss 0.05123");
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

}  // namespace
}  // namespace ddprun::console
