// SPDX-License-Identifier: MIT
#include "strict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

TEST(StrictJson, AKeyThatStandsTwiceInOneObjectIsNamed) {
  try {
    parse_strict_json(R"({"files": {"rank_0.safetensors": 1, "model": [{"a": 1}], "rank_0.safetensors": 2}})");
    FAIL() << "it was taken";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"rank_0.safetensors\" appears twice"));
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

TEST(StrictJson, WhatNestsDeeperThanAskedIsRefused) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse_strict_json(nested(8)));
  EXPECT_NO_THROW(parse_strict_json(nested(32), 32));
  for (const size_t depth : {size_t{9}, size_t{1} << 20}) {
    try {
      parse_strict_json(nested(depth));
      FAIL() << "it was taken";
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("deeper than 8 levels"));
    }
  }
}

TEST(StrictJson, WhatTheLibraryWouldLeaveOutIsRefused) {
  EXPECT_THROW(parse_strict_json(std::string("{}\0 more", 8)), std::runtime_error);
  EXPECT_THROW(parse_strict_json("\xEF\xBB\xBF{}"), std::runtime_error);
}

TEST(StrictJson, ErrorsNameTheTypeOfAValueOfAnySize) {
  EXPECT_EQ(describe(nlohmann::json(-4)), "-4");
  EXPECT_EQ(describe(nlohmann::json::array({1, 2, 3})), "a list");
  EXPECT_EQ(describe(nlohmann::json(std::string(1000, 'x'))), "a text");
}

}  // namespace
}  // namespace ddprun
