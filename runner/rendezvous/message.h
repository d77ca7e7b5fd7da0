// SPDX-License-Identifier: MIT
// Messages between the launchers of several nodes, and between workers and the first of them: JSON objects as
// MessagePack, each preceded by its length (4 bytes, big-endian).
#pragma once

#include "launch/fields.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

using Bytes = std::vector<uint8_t>;

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
