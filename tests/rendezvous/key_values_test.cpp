// SPDX-License-Identifier: MIT
#include "rendezvous/key_values.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

Message binary(const std::string& text) { return Message::binary({text.begin(), text.end()}); }

std::string text(const Message& value) {
  const auto& bytes = value.get_binary();
  return {bytes.begin(), bytes.end()};
}

// Answers as they come; empty until then.
struct Asked {
  std::vector<Message> answers;
  KeyValues::Answer answer() {
    return [this](Message message) { answers.push_back(std::move(message)); };
  }
};

Message ask(KeyValues& keys, const Message& request) {
  Asked asked;
  keys.request(1, request, asked.answer());
  return asked.answers.at(0);
}

void set(KeyValues& keys, const std::string& key, const std::string& value) {
  ask(keys, {{"op", "set"}, {"key", key}, {"value", binary(value)}});
}

TEST(KeyValues, GetWaitsForAllKeys) {
  KeyValues keys;
  Asked asked;
  keys.request(1, {{"op", "get"}, {"keys", {"a", "b"}}}, asked.answer());
  set(keys, "b", "2");
  EXPECT_TRUE(asked.answers.empty());
  set(keys, "a", "1");
  ASSERT_EQ(asked.answers.size(), 1);
  EXPECT_EQ(text(asked.answers[0].at("values")[0]), "1");
  EXPECT_EQ(text(asked.answers[0].at("values")[1]), "2");
}

TEST(KeyValues, WhoIsForgottenGetsNoAnswer) {
  KeyValues keys;
  Asked asked;
  keys.request(7, {{"op", "wait"}, {"keys", {"a"}}}, asked.answer());
  keys.forget(7);
  set(keys, "a", "1");
  EXPECT_TRUE(asked.answers.empty());
}

TEST(KeyValues, AddCountsAndCanBeRead) {
  KeyValues keys;
  EXPECT_EQ(ask(keys, {{"op", "add"}, {"key", "n"}, {"amount", 3}}).at("sum"), 3);
  EXPECT_EQ(ask(keys, {{"op", "add"}, {"key", "n"}, {"amount", -1}}).at("sum"), 2);
  EXPECT_EQ(text(ask(keys, {{"op", "get"}, {"keys", {"n"}}}).at("values")[0]), "2");
}

TEST(KeyValues, CompareSetChangesOnlyWhatIsExpected) {
  KeyValues keys;
  const auto compare_set = [&](const std::string& expected, const std::string& desired) {
    return text(
        ask(keys, {{"op", "compare_set"}, {"key", "k"}, {"expected", binary(expected)}, {"desired", binary(desired)}})
            .at("value"));
  };
  EXPECT_EQ(compare_set("other", "x"), "other");  // absent, and something was expected: left absent
  EXPECT_EQ(compare_set("", "a"), "a");
  EXPECT_EQ(compare_set("wrong", "b"), "a");
  EXPECT_EQ(compare_set("a", "b"), "b");
}

TEST(KeyValues, AppendDeleteCheckCount) {
  KeyValues keys;
  set(keys, "a", "1");
  ask(keys, {{"op", "append"}, {"key", "a"}, {"value", binary("2")}});
  EXPECT_EQ(text(ask(keys, {{"op", "get"}, {"keys", {"a"}}}).at("values")[0]), "12");
  EXPECT_TRUE(ask(keys, {{"op", "check"}, {"keys", {"a"}}}).at("there"));
  EXPECT_FALSE(ask(keys, {{"op", "check"}, {"keys", {"a", "b"}}}).at("there"));
  EXPECT_TRUE(ask(keys, {{"op", "delete"}, {"key", "a"}}).at("deleted"));
  EXPECT_FALSE(ask(keys, {{"op", "delete"}, {"key", "a"}}).at("deleted"));
  for (const auto* key : {"attempt_1/a", "attempt_1/b", "attempt_10/a"}) set(keys, key, "1");
  EXPECT_EQ(ask(keys, {{"op", "count"}, {"prefix", "attempt_1/"}}).at("count"), 2);
}

TEST(KeyValues, DropTakesAnAttemptsKeys) {
  KeyValues keys;
  set(keys, "attempt_1/a", "1");
  set(keys, "attempt_10/a", "1");
  keys.drop("attempt_1/");
  EXPECT_EQ(keys.size(), 1);
}

TEST(KeyValues, RefusesWhatItDoesNotKnow) {
  KeyValues keys;
  EXPECT_THROW(ask(keys, {{"op", "steal"}}), ProtocolError);
  EXPECT_THROW(ask(keys, {{"op", "set"}, {"key", "a"}}), ProtocolError);
  EXPECT_THROW(ask(keys, {{"op", "add"}, {"key", "a"}, {"amount", 1e300}}), ProtocolError);
  ask(keys, {{"op", "add"}, {"key", "a"}, {"amount", INT64_MAX}});
  EXPECT_THROW(ask(keys, {{"op", "add"}, {"key", "a"}, {"amount", 1}}), ProtocolError);
}

}  // namespace
}  // namespace ddprun
