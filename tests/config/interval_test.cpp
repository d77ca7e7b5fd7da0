// SPDX-License-Identifier: MIT
#include "config/interval.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(ParseInterval, KnowsEpochsStepsAndTimes) {
  EXPECT_EQ(parse_interval("1ep")->epochs, 1);
  EXPECT_EQ(parse_interval("200st")->steps, 200);
  EXPECT_EQ(parse_interval("30s")->seconds, 30);
  EXPECT_EQ(parse_interval("10min")->seconds, 600);
  EXPECT_EQ(parse_interval("1.5h")->seconds, 5400);
}

TEST(ParseInterval, RefusesOtherTexts) {
  for (const auto* text :
       {"", "1", "ep", "0ep", "-1ep", "1.5ep", "1 ep", "1epoch", "0s", "1d", "nans", "1e3s", "9999999999ep", "1..5s"}) {
    EXPECT_FALSE(parse_interval(text)) << text;
  }
}

TEST(ParseDuration, KnowsUnitsAndClocks) {
  EXPECT_EQ(parse_duration("90min"), 5400);
  EXPECT_EQ(parse_duration("01:30:00"), 5400);
  EXPECT_EQ(parse_duration("100:00:01"), 360'001);
  EXPECT_EQ(parse_duration("1-12:00:00"), 129'600);
}

TEST(ParseDuration, RefusesOtherTexts) {
  for (const auto* text : {"", "90", "1ep", "01:30", "01:60:00", "00:00:00", "a:b:c", "1-", "-1:00:00", "1:2:3:4"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(ParseLimit, SaysACountFromAShare) {
  EXPECT_EQ(parse_limit("5")->of(100), 5);
  EXPECT_EQ(parse_limit("500")->of(100), 100);
  EXPECT_EQ(parse_limit("1")->of(100), 1);
  EXPECT_EQ(parse_limit("1.0")->of(100), 100);
  EXPECT_EQ(parse_limit("0.25")->of(100), 25);
  EXPECT_EQ(parse_limit("0.001")->of(100), 1);
  EXPECT_EQ(parse_limit("all")->of(100), 100);
  EXPECT_EQ(parse_limit("5")->of(0), 0);
}

TEST(ParseLimit, RefusesOtherTexts) {
  for (const auto* text : {"", "0", "-1", "1.5", "0.0", "ten", "nan", "5%"}) EXPECT_FALSE(parse_limit(text)) << text;
}

}  // namespace
}  // namespace ddprun
