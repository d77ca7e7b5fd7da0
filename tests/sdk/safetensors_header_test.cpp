// SPDX-License-Identifier: MIT
#include "safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// {"t0": ..., "t1": ...}, one byte each.
std::string header_of(int tensors) {
  std::string text = "{";
  for (int i = 0; i < tensors; ++i) {
    text += (i ? ",\"t" : "\"t") + std::to_string(i) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
            std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  }
  return text + "}";
}

TEST(SafetensorsHeader, GivesTensorsInTheOrderOfTheirValues) {
  const auto entries = parse_safetensors_header(
      R"({"a":{"dtype":"I16","shape":[1,2],"data_offsets":[3,7]},"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
      7);
  EXPECT_EQ(entries.at(0).name, "b");
  EXPECT_EQ(entries.at(1).dtype, "I16");
  EXPECT_THAT(entries.at(1).shape, ElementsAre(1, 2));
}

// Time that grew with the square of their number would be an hour.
TEST(SafetensorsHeader, TakesHundredsOfThousandsOfTensors) {
  constexpr int kTensors = 400'000;
  EXPECT_EQ(parse_safetensors_header(header_of(kTensors), kTensors).size(), size_t{kTensors});
}

TEST(SafetensorsHeader, DeepNestingIsNamedAndNotRepeated) {
  const auto deep = std::string(200'000, '[') + std::string(200'000, ']');
  for (const auto& [shape, offsets] :
       {std::pair{deep, std::string("[0,4]")}, {"[4]", deep}, {"[4]", "[0," + deep + "]"}}) {
    const auto header = R"({"x":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
    try {
      parse_safetensors_header(header, 4);
      FAIL() << "it was taken";
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("nests deeper than 8 levels"));
      EXPECT_LT(std::string(error.what()).size(), 200U);
    }
  }
}

}  // namespace
}  // namespace ddprun
