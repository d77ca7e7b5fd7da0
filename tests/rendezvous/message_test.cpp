// SPDX-License-Identifier: MIT
#include "rendezvous/message.h"

#include "rendezvous/key_values.h"
#include "rendezvous/node_messages.h"

#include <gtest/gtest.h>

#include <tuple>

namespace ddprun {
namespace {

TEST(MessageReader, PutsPiecesTogether) {
  const auto text = encode({{"key", "a"}}) + encode({{"key", "b"}});
  MessageReader reader;
  std::vector<std::string> keys;
  for (const char byte : text) {
    reader.feed({&byte, 1});
    while (const auto message = reader.next()) keys.push_back(message->at("key"));
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"a", "b"}));
}

TEST(MessageReader, KeepsBytesAsTheyAre) {
  const Bytes bytes{0, 255, 10, 13, 0};
  MessageReader reader;
  reader.feed(encode({{"value", Message::binary(bytes)}}));
  EXPECT_EQ(static_cast<const Bytes&>(reader.next()->at("value").get_binary()), bytes);
}

TEST(MessageReader, RefusesOtherProtocolsAndWhatNestsTooDeepBeforeItRecurses) {
  const std::string body = "\x81\xa1n" + std::string(1'000'000, '\x91') + '\xc0';
  std::string deep;
  for (const int shift : {24, 16, 8, 0}) deep += static_cast<char>(body.size() >> shift & 0xFF);
  for (const auto& text :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\0\0\0\3\xc1\xc1\xc1", 7), deep + body}) {
    MessageReader reader;
    reader.feed(text);
    EXPECT_THROW(reader.next(), ProtocolError);
  }
}

TEST(NodeMessages, RefuseNumbersThatNobodyHas) {
  AttemptEnd end{.workers = {{.rank = 1}}};
  EXPECT_EQ(attempt_end(to_message(end, 1), 1).workers[0].rank, 1);
  for (const Message& number : {Message(1e300), Message(1.5), Message(int64_t{1} << 32), Message(INT32_MAX)}) {
    auto message = to_message(end, 1);
    message["workers"][0]["signal"] = number;  // would be added to 128, to be an exit code
    EXPECT_THROW(attempt_end(message, 1), ProtocolError) << number;
  }
}

// The receiver's clock began elsewhere: it may even show less than the sender's did then.
TEST(NodeMessages, MomentsBecomeThoseOfTheReceiversClock) {
  WorkerEnd worker{.rank = 1, .exit_code = 1, .time = 90'007};
  worker.failure = WorkerFailure{.rank = 1, .time = 90'004};
  const AttemptEnd end{.workers = {worker, {.rank = 2}}};
  const auto arrived = attempt_end(to_message(end, /*now=*/90'010), /*now=*/500).workers;
  EXPECT_EQ(arrived[0].failure->time, 494);
  EXPECT_EQ(arrived[0].time, 497);
  EXPECT_EQ(arrived[1].time, 0) << "of one that never ran nobody noted when it ended";
}

TEST(NodeMessages, AnOrderToStartArrivesAsItWas) {
  const Order start{.kind = Order::Kind::kStart,
                    .attempt = {.number = 3,
                                .node = 1,
                                .nodes = 2,
                                .first_rank = 4,
                                .world_size = 8,
                                .run_dir = "/scratch/\xff",
                                .checkpoint = "step_00000005",
                                .mark = "1234",
                                .first_node = "node1"},
                    .experiment = {{"seed", "42"}}};
  const auto all = [](const Order& order) {
    const auto& attempt = order.attempt;
    return std::tie(order.kind, order.experiment, attempt.number, attempt.node, attempt.nodes, attempt.first_rank,
                    attempt.world_size, attempt.run_dir, attempt.checkpoint, attempt.mark, attempt.first_node);
  };
  EXPECT_TRUE(all(order(to_message(start))) == all(start));
}

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

TEST(KeyValues, GetWaitsForAllKeysUnlessItIsForgotten) {
  KeyValues keys;
  Asked asked, forgotten;
  keys.request(1, {{"op", "get"}, {"keys", {"a", "b"}}}, asked.answer());
  keys.request(7, {{"op", "wait"}, {"keys", {"a"}}}, forgotten.answer());
  keys.forget(7);
  set(keys, "b", "2");
  EXPECT_TRUE(asked.answers.empty());
  set(keys, "a", "1");
  ASSERT_EQ(asked.answers.size(), 1);
  EXPECT_EQ(text(asked.answers[0].at("values")[0]), "1");
  EXPECT_EQ(text(asked.answers[0].at("values")[1]), "2");
  EXPECT_TRUE(forgotten.answers.empty());
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

TEST(KeyValues, AppendDeleteCheckCountDrop) {
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
