// SPDX-License-Identifier: MIT
#include <ddprun/value.h>

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(Origin, WritesFileLineAndColumn) {
  EXPECT_EQ((Origin{.source = "a.yaml", .line = 12, .column = 5}.text()), "a.yaml:12:5");
  EXPECT_EQ((Origin{.source = "command line"}.text()), "command line");
}

TEST(Value, IsNullUntilItIsMade) {
  EXPECT_TRUE(Value().is_null());
  EXPECT_TRUE(Value::scalar("a").is_scalar());
  EXPECT_TRUE(Value::list().is_list());
  EXPECT_TRUE(Value::map().is_map());
}

TEST(Value, KeepsTheOrderOfKeysWhenOneIsReplaced) {
  auto map = Value::map();
  map.set("b", Value::scalar("1"));
  map.set("a", Value::scalar("2"));
  map.set("b", Value::scalar("3"), {.source = "x"});
  ASSERT_EQ(map.entries().size(), 2U);
  EXPECT_EQ(map.entries()[0].key, "b");
  EXPECT_EQ(map.entries()[0].value.text(), "3");
  EXPECT_EQ(map.entries()[0].key_origin.source, "x");
}

TEST(Value, FindsAndErasesByKey) {
  auto map = Value::map();
  map.set("a", Value::scalar("1"));
  EXPECT_EQ(map.find("a")->text(), "1");
  EXPECT_EQ(map.find("b"), nullptr);
  EXPECT_TRUE(map.erase("a"));
  EXPECT_FALSE(map.erase("a"));
}

TEST(Value, CopiesDeeply) {
  auto map = Value::map();
  map.set("a", Value::list()).items().push_back(Value::scalar("1"));
  auto copy = map;
  copy.find("a")->items()[0] = Value::scalar("2");
  EXPECT_EQ(map.find("a")->items()[0].text(), "1");
}

TEST(Value, DescribesWhatWasFound) {
  EXPECT_EQ(describe(Value()), "null");
  EXPECT_EQ(describe(Value::scalar(std::string(79, 'x') + "\u00e9" + std::string(200, 'x'))),
            "\"" + std::string(79, 'x') + "...\"");
  EXPECT_EQ(describe(Value::list()), "a list");
  EXPECT_EQ(describe(Value::map()), "a map");
  EXPECT_EQ(describe(Value::scalar("7")), "\"7\"");
}

}  // namespace
}  // namespace ddprun
