// SPDX-License-Identifier: MIT
#include "launch/fields.h"

#include "shown_text.h"

namespace ddprun {

Message text_message(const std::string& bytes) {
  return is_utf8(bytes) ? Message(bytes) : Message::binary({bytes.begin(), bytes.end()});
}

std::string text_of(const Message& message) {
  if (message.is_string()) return message.get<std::string>();
  std::string bytes;
  if (message.is_binary()) return bytes.assign(message.get_binary().begin(), message.get_binary().end());
  for (const auto& byte : message.at("bytes")) bytes += static_cast<char>(whole<uint8_t>(byte));  // as JSON has them
  return bytes;
}

}  // namespace ddprun
