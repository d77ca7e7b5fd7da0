// SPDX-License-Identifier: MIT
#include "rendezvous/message.h"

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
  if (length > most_) throw ProtocolError("it does not speak ddprun's protocol");
  if (pending_.size() < kLengthBytes + length) return std::nullopt;
  const auto* begin = reinterpret_cast<const uint8_t*>(pending_.data()) + kLengthBytes;
  auto message = Message::from_msgpack(begin, begin + length, /*strict=*/true, /*allow_exceptions=*/false);
  if (!message.is_object()) throw ProtocolError("it does not speak ddprun's protocol");
  pending_.erase(0, kLengthBytes + length);
  return message;
}

}  // namespace ddprun
