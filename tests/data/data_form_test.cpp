// SPDX-License-Identifier: MIT
#include "data/data_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

DataForm form(const std::string& digest, std::array<int64_t, 3> samples = {90, 10, 0}) {
  return {.spec = {.sample_shape = {2}, .classes = 3},
          .bytes = {},
          .samples = samples,
          .account = {.used = 1, .digest = digest}};
}

TEST(DataForm, TellsHowTheSamplesHaveChanged) {
  EXPECT_EQ(changes_since(form("one"), form("one")), "");
  EXPECT_THAT(changes_since(form("one"), form("two")), HasSubstr("as many samples as before, with other names"));
  EXPECT_EQ(changes_since(form("one"), form("two", {91, 10, 1})),
            "train has 91 samples, and had 90; test has 1 samples, and had 0");
}

TEST(DataForm, OfAnEarlierVersionIsNotComparedAndIsRead) {
  EXPECT_EQ(changes_since(form("", {}), form("one")), "");
  const auto early =
      data_form_from_json(R"({"sample_shape": [2], "type": "float32", "classes": 3, "class_names": []})");
  EXPECT_EQ(early.account.digest, "");
  const auto read = data_form_from_json(to_json(form("one")));
  EXPECT_EQ(changes_since(read, form("one")), "");
  EXPECT_EQ(read.samples, form("one").samples);
}

}  // namespace
}  // namespace ddprun
