// SPDX-License-Identifier: MIT
// Messages between the launchers of several nodes, and between workers and the first of them: JSON objects as
// MessagePack, each preceded by its length (4 bytes, big-endian).
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

using Message = nlohmann::json;
using Bytes = std::vector<uint8_t>;

// The other side does not speak ddprun's protocol, or is not who it claims to be.
class ProtocolError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Calls what parses a message; a missing or mistyped part becomes a ProtocolError.
template <class Read>
auto reading(const Read& read) {
  try {
    return read();
  } catch (const Message::exception& error) {
    throw ProtocolError(error.what());
  }
}

// Returns a whole number that fits Integer, or throws ProtocolError. (nlohmann would convert a fraction too, and 1e300
// with undefined behaviour.)
template <class Integer>
Integer whole(const Message& value) {
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<Integer>(value.get<uint64_t>())
                        : value.is_number_integer() && std::in_range<Integer>(value.get<int64_t>());
  if (!fits) throw ProtocolError("it sends an invalid number");
  return value.get<Integer>();
}

std::string encode(const Message& message);

// Reassembles messages from pieces of a stream. Throws ProtocolError for what is not one of ours: not an object, too
// long, too deep.
class MessageReader {
 public:
  static constexpr size_t kMost = 64 << 20;  // bytes per message

  void feed(std::string_view piece) { pending_.append(piece); }
  std::optional<Message> next();

 private:
  std::string pending_;
};

}  // namespace ddprun
