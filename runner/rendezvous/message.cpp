// SPDX-License-Identifier: MIT
#include "rendezvous/message.h"

#include "strict_json.h"

namespace ddprun {
namespace {

constexpr size_t kLengthBytes = 4;

size_t length_of(std::string_view text) {
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length = length << 8 | static_cast<uint8_t>(text[i]);
  return length;
}

}  // namespace

std::string encode(const Message& message) {
  const auto body = Message::to_msgpack(message);
  std::string text;
  for (size_t i = 0; i < kLengthBytes; ++i)
    text += static_cast<char>(body.size() >> (8 * (kLengthBytes - 1 - i)) & 0xFF);
  text.append(body.begin(), body.end());
  return text;
}

std::optional<Message> MessageReader::next() {
  if (pending_.size() < kLengthBytes) return std::nullopt;
  const size_t length = length_of(pending_);
  if (length > kMost) throw ProtocolError("it does not speak ddprun's protocol");
  if (pending_.size() < kLengthBytes + length) return std::nullopt;
  const std::string_view body(pending_.data() + kLengthBytes, length);
  Message message;
  try {
    message = parse_strict_msgpack(body);
  } catch (const std::exception&) {  // not one of ours: the next line reports it
  }
  if (!message.is_object()) throw ProtocolError("it does not speak ddprun's protocol");
  pending_.erase(0, kLengthBytes + length);
  return message;
}

}  // namespace ddprun
