// SPDX-License-Identifier: MIT
// What goes over the wire between the launchers of several nodes, and between workers and the first of them: JSON
// objects as MessagePack, each behind its length (4 bytes, big-endian).
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

// The other side does not speak as ddprun does, or is not who it says.
class ProtocolError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Calls what takes a message apart; one that lacks a part, or has another in its place, is a ProtocolError.
template <class Read>
auto reading(const Read& read) {
  try {
    return read();
  } catch (const Message::exception& error) {
    throw ProtocolError(error.what());
  }
}

// A whole number that an Integer holds; anything else is a ProtocolError. (To nlohmann a fraction would be one, and
// what becomes of 1e300 then is undefined.)
template <class Integer>
Integer whole(const Message& value) {
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<Integer>(value.get<uint64_t>())
                        : value.is_number_integer() && std::in_range<Integer>(value.get<int64_t>());
  if (!fits) throw ProtocolError("it sends a number that cannot be one");
  return value.get<Integer>();
}

std::string encode(const Message& message);

// Puts messages together from pieces of a stream. Throws ProtocolError for what is none of ours: no object, too long,
// too deep.
class MessageReader {
 public:
  static constexpr size_t kMost = 64 << 20;  // bytes of a message

  void feed(std::string_view piece) { pending_.append(piece); }
  std::optional<Message> next();

 private:
  std::string pending_;
};

}  // namespace ddprun
