// SPDX-License-Identifier: MIT
// What launchers and workers get from the network once they have met, and what the first node makes of it.
#include "fuzz/fuzz_target.h"
#include "rendezvous/key_values.h"
#include "rendezvous/node_messages.h"

namespace ddprun {
namespace {

// As the server and the links take a message apart.
void take(const Message& message, KeyValues& keys) {
  try {
    if (message.contains("op")) return keys.request(1, message, [](const Message& answer) { encode(answer); });
    if (message.contains("node")) to_message(node_info(message["node"]));
    if (message.contains("ended")) judge_ends(attempt_end(message["ended"], /*now=*/1000));
    if (message.contains("order")) encode(to_message(order(message)));
  } catch (const ProtocolError&) {  // the next one is read nevertheless
  }
}

}  // namespace

// A stream that comes in pieces. Lengths are short here, and their upper bytes 0: a byte that is flipped still leaves
// messages.
void feed_message(std::string_view bytes) {
  MessageReader reader;
  KeyValues keys;
  while (bytes.size() > 1) {
    const size_t length =
        std::min<size_t>(static_cast<uint8_t>(bytes[0]) << 8 | static_cast<uint8_t>(bytes[1]), bytes.size() - 2);
    const char head[] = {0, 0, static_cast<char>(length >> 8), static_cast<char>(length)};
    reader.feed({head, sizeof head});
    reader.feed(bytes.substr(2, length / 2));
    reader.feed(bytes.substr(2 + length / 2, length - length / 2));
    bytes.remove_prefix(2 + length);
    try {
      while (const auto message = reader.next()) take(*message, keys);
    } catch (const ProtocolError&) {
      return;  // then the connection ends
    }
  }
  keys.drop("");
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(message, feed_message)
