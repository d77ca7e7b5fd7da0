// SPDX-License-Identifier: MIT
#include "checkpoint/strict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

TEST(StrictJson, AKeyThatStandsTwiceInOneObjectIsNamed) {
  try {
    parse_strict_json(R"({"files": {"rank_0.pt": 1, "model": [{"a": 1}], "rank_0.pt": 2}})");
    FAIL() << "it was taken";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"rank_0.pt\" stands twice"));
  }
}

TEST(StrictJson, TheSameKeyInOtherObjectsIsAnother) {
  const auto content = parse_strict_json(R"({"a": {"a": [{"a": 1.5}, {"a": null}]}, "b": {"a": -1}})");
  EXPECT_EQ(content["a"]["a"][0]["a"], 1.5);
  EXPECT_EQ(content["b"]["a"], -1);
}

TEST(StrictJson, WhatIsNoJsonIsAnError) {
  for (const auto* text : {"", "{", R"({"a": 1)", R"({"a": 1}})", R"({"a": "\xff"})"})
    EXPECT_THROW(parse_strict_json(text), nlohmann::json::exception) << text;
}

}  // namespace
}  // namespace ddprun
