// SPDX-License-Identifier: MIT
// Writes one protobuf message in the wire format (protobuf.dev/programming-guides/encoding), limited to the kinds of
// fields that TensorBoard's messages have. It is written by hand because LibTorch's headers contain another protobuf
// than the system's (docs/decisions/0014).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::tensorboard {

// Each method appends one field with this number, and returns the message.
class Message {
 public:
  Message& integer(int field, int64_t value) {
    tag(field, kVarint);
    varint(static_cast<uint64_t>(value));
    return *this;
  }

  Message& real(int field, double value) { return fixed(field, kFixed64, value); }
  Message& real32(int field, float value) { return fixed(field, kFixed32, value); }

  Message& bytes(int field, std::string_view value) {
    tag(field, kLength);
    varint(value.size());
    bytes_.append(value);
    return *this;
  }

  Message& reals(int field, const std::vector<double>& values) {  // packed
    static_assert(std::endian::native == std::endian::little);
    return bytes(field, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)});
  }

  Message& message(int field, const Message& value) { return bytes(field, value.bytes_); }

  const std::string& str() const { return bytes_; }

 private:
  enum Kind { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

  void tag(int field, Kind kind) { varint(static_cast<uint64_t>(field) << 3 | kind); }

  void varint(uint64_t value) {
    for (; value > 0x7F; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  template <class Number>
  Message& fixed(int field, Kind kind, Number value) {
    static_assert(std::endian::native == std::endian::little);
    tag(field, kind);
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes_.append(raw, sizeof value);
    return *this;
  }

  std::string bytes_;
};

}  // namespace ddprun::tensorboard
