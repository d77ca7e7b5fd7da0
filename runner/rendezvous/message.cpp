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

// Reads along, builds nothing, and stops where it becomes too deep.
class DepthLimit final : public nlohmann::json_sax<Message> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return ++depth_ <= MessageReader::kDeepest; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(size_t) override { return ++depth_ <= MessageReader::kDeepest; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  int depth_ = 0;
};

// Nothing that is an object where the bytes are none of ours.
Message decode(const uint8_t* begin, const uint8_t* end) {
  DepthLimit limit;
  if (!Message::sax_parse(begin, end, &limit, Message::input_format_t::msgpack)) return {};
  return Message::from_msgpack(begin, end, /*strict=*/true, /*allow_exceptions=*/false);
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
  const auto* begin = reinterpret_cast<const uint8_t*>(pending_.data()) + kLengthBytes;
  auto message = decode(begin, begin + length);
  if (!message.is_object()) throw ProtocolError("it does not speak ddprun's protocol");
  pending_.erase(0, kLengthBytes + length);
  return message;
}

}  // namespace ddprun
