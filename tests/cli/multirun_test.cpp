// SPDX-License-Identifier: MIT
#include "cli/multirun.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>

namespace ddprun {
namespace {

using testing::ElementsAre;

TEST(Multirun, MakesEachCombinationTheLastKeyFastest) {
  EXPECT_THAT(combinations({"a=1,2", "model=mlp", "b=x,y"}),
              ElementsAre(ElementsAre("a=1", "model=mlp", "b=x"), ElementsAre("a=1", "model=mlp", "b=y"),
                          ElementsAre("a=2", "model=mlp", "b=x"), ElementsAre("a=2", "model=mlp", "b=y")));
  EXPECT_THAT(combinations({}), ElementsAre(ElementsAre()));
}

TEST(Multirun, ACommaWithinBracketsOrQuotesSeparatesNothing) {
  EXPECT_THAT(combinations({"loggers=[csv, jsonl],[csv]"}),
              ElementsAre(ElementsAre("loggers=[csv, jsonl]"), ElementsAre("loggers=[csv]")));
  EXPECT_THAT(combinations({"objective={name: mse, weights: [1, 2]}"}),
              ElementsAre(ElementsAre("objective={name: mse, weights: [1, 2]}")));
  EXPECT_THAT(combinations({"name='a, [b',c"}), ElementsAre(ElementsAre("name='a, [b'"), ElementsAre("name=c")));
  EXPECT_THAT(combinations({"name=${now:%Y},b"}), ElementsAre(ElementsAre("name=${now:%Y}"), ElementsAre("name=b")));
}

TEST(Multirun, WhatHasNoValueOrAnEmptyOneStays) {
  EXPECT_THAT(combinations({"~early_stopping", "run.dir="}), ElementsAre(ElementsAre("~early_stopping", "run.dir=")));
}

TEST(Multirun, TwoNumbersAndTwoDotsAreARange) {
  EXPECT_THAT(combinations({"fold=0..2,7"}),
              ElementsAre(ElementsAre("fold=0"), ElementsAre("fold=1"), ElementsAre("fold=2"), ElementsAre("fold=7")));
  for (const char* other : {"a=../b", "a=0..", "a=..3", "a=1...3", "a=0.5..2", "a=0..x"})
    EXPECT_THAT(combinations({other}), ElementsAre(ElementsAre(other)));
  for (const char* wrong : {"a=4..0", "a=0..10000"}) EXPECT_THROW(combinations({wrong}), UserError) << wrong;
}

TEST(Multirun, AnEmptyPlaceBesideACommaIsAMistake) {
  for (const char* override : {"a=1,", "a=,1", "a=1,,2"}) EXPECT_THROW(combinations({override}), UserError) << override;
}

TEST(Multirun, AKeyOfSeveralValuesIsGivenOnce) {
  for (const auto& twice : {std::vector<std::string>{"a=1,2", "a=3"}, {"++a=3", "a=1,2"}, {"a=1,2", "a=3,4"}})
    EXPECT_THROW(combinations(twice), UserError) << twice[0];
  EXPECT_EQ(combinations({"+loggers=csv", "+loggers=jsonl", "a=1,2"}).size(), 2);
}

}  // namespace
}  // namespace ddprun
