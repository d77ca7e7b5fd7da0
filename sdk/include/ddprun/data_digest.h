// SPDX-License-Identifier: MIT
// Makes DataAccount::digest: the same for the same samples, whatever machine reads them.
#pragma once

#include <ddprun/dataset.h>
#include <ddprun/digest.h>
#include <ddprun/image_store.h>

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

// Returns the account of a dataset's images in memory, by Split, of which dataset.limit_train left `beyond_limit` out.
inline DataAccount account_of_images(std::span<const ImageStore> stores, int64_t beyond_limit) {
  DataAccount account{.unit = "image"};
  DataDigest digest;
  for (const auto& store : stores) {
    account.used += store.size();
    digest.add(store.labels());
    if (store.size() > 0) digest.add_some(store.pixels(0).data(), store.pixels(0).size() * store.labels().size());
  }
  if (beyond_limit > 0)
    account.left_alone.push_back({.reason = "of train beyond dataset.limit_train", .count = beyond_limit});
  account.digest = digest.hex();
  return account;
}

}  // namespace ddprun
