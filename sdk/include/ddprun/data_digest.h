// SPDX-License-Identifier: MIT
// Makes DataAccount::digest: the same for the same samples, whatever machine reads them.
#pragma once

#include <ddprun/digest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ddprun {

class DataDigest {
 public:
  // Add a number, such as a count, a name, and several numbers, such as labels.
  void add(int64_t number) { sha256_.update(&number, sizeof number); }
  void add(std::string_view name) { add_all(name.data(), name.size()); }
  void add(std::span<const int64_t> numbers) { add_all(numbers.data(), numbers.size_bytes()); }

  // Adds values of any kind.
  void add_all(const void* values, uint64_t bytes) {
    add(static_cast<int64_t>(bytes));
    sha256_.update(values, bytes);
  }

  // Adds the size of values that may be too many to read, and 256 KB of them, spread evenly.
  void add_some(const void* values, uint64_t bytes) {
    constexpr uint64_t kBlock = 4096, kBlocks = 64;
    add(static_cast<int64_t>(bytes));
    const auto* first = static_cast<const uint8_t*>(values);
    if (bytes <= kBlock * kBlocks) return sha256_.update(first, bytes);
    for (uint64_t i = 0; i < kBlocks; ++i) sha256_.update(first + (bytes - kBlock) / (kBlocks - 1) * i, kBlock);
  }

  // Returns the digest of all that was added, in hexadecimal digits.
  std::string hex() { return sha256_.hex(); }

 private:
  Sha256 sha256_;
};

}  // namespace ddprun
