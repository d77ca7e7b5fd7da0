// SPDX-License-Identifier: MIT
// Records as JSON objects, in messages between nodes and in files between a launcher and its workers. A record lists
// its fields once for both directions, in visit_fields(record, visit).
#pragma once

#include "base/words.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace ddprun {

using Message = nlohmann::json;

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

// A text that a foreign library or a file system gives may contain any bytes: if it is not UTF-8, it becomes binary
// data. The second throws for what is neither.
Message text_message(const std::string& bytes);
std::string text_of(const Message& message);

template <class Value>
concept IsText = std::is_same_v<Value, std::string> || std::is_same_v<Value, std::filesystem::path>;

// Puts all fields of a record into an object. Takes a copy, since a record visits what it can also read.
template <class Record>
Message message_of(Record record) {
  auto message = Message::object();
  visit_fields(record, [&message]<class Value>(const char* name, const Value& value) {
    if constexpr (IsText<Value>) {
      message[name] = text_message(value);
    } else if constexpr (std::is_enum_v<Value>) {
      message[name] = word_of(value);
    } else if constexpr (std::is_arithmetic_v<Value>) {
      message[name] = value;
    } else {
      message[name] = message_of(value);
    }
  });
  return message;
}

// Takes all fields of a record out of an object; call it in reading(). Throws if one is missing or is not what it
// should be.
template <class Record>
Record record_of(const Message& message) {
  Record record;
  visit_fields(record, [&message]<class Value>(const char* name, Value& value) {
    const auto& field = message.at(name);
    if constexpr (IsText<Value>) {
      value = text_of(field);
    } else if constexpr (std::is_enum_v<Value>) {
      const auto known = enum_of<Value>(field.template get<std::string>());
      if (!known) throw ProtocolError(std::string(name) + " is an unknown word");
      value = *known;
    } else if constexpr (std::is_integral_v<Value>) {
      value = whole<Value>(field);
    } else if constexpr (std::is_arithmetic_v<Value>) {
      field.get_to(value);
    } else {
      value = record_of<Value>(field);
    }
  });
  return record;
}

}  // namespace ddprun
