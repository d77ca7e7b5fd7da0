// SPDX-License-Identifier: MIT
#include "rendezvous/message.h"

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

TEST(MessageReader, RefusesOtherProtocols) {
  MessageReader http;
  http.feed("GET / HTTP/1.1\r\n\r\n");
  EXPECT_THROW(http.next(), ProtocolError);

  MessageReader garbage;
  garbage.feed(std::string("\0\0\0\3\xc1\xc1\xc1", 7));
  EXPECT_THROW(garbage.next(), ProtocolError);
}

TEST(MessageReader, RefusesWhatNestsTooDeepBeforeItRecurses) {
  const std::string body = "\x81\xa1n" + std::string(1'000'000, '\x91') + '\xc0';
  std::string text;
  for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(body.size() >> shift & 0xFF);
  MessageReader reader;
  reader.feed(text + body);
  EXPECT_THROW(reader.next(), ProtocolError);
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

}  // namespace
}  // namespace ddprun
