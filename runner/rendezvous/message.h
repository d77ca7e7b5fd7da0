// SPDX-License-Identifier: MIT
// What goes over the wire between the launchers of several nodes, and between workers and the first of them: JSON objects as
// MessagePack, each behind its length (4 bytes, big-endian).
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
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

std::string encode(const Message& message);

// Puts messages together from pieces of a stream. Throws ProtocolError for what is none of ours, and for one that is too long.
class MessageReader {
 public:
  static constexpr size_t kMost = 64 << 20;
  static constexpr size_t kOfAStranger = 4 << 10;  // before the handshake: a message of it is small, and nests in few levels

  explicit MessageReader(size_t most = kMost) : most_(most) {}

  void allow(size_t most) { most_ = most; }
  void feed(std::string_view piece) { pending_.append(piece); }
  std::optional<Message> next();

 private:
  size_t most_;
  std::string pending_;
};

}  // namespace ddprun
