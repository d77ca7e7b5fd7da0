// SPDX-License-Identifier: MIT
#include "train/tensor_digest.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace ddprun {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;  // 2^64 / the golden ratio
constexpr uint64_t kFactor = 0xBF58476D1CE4E5B9;  // odd, of the generator SplitMix64
constexpr int kFirstShift = 32, kSecondShift = 29;
constexpr int64_t kWordBytes = sizeof(uint64_t);
constexpr int64_t kWordsOfATask = 1 << 16;
constexpr int64_t kWordsOnDevice = 1 << 23;  // at a time: what is computed takes four times their memory

uint64_t mix(uint64_t word) {
  word = (word ^ (word >> kFirstShift)) * kFactor;
  return word ^ (word >> kSecondShift);
}

uint64_t at_place(int64_t place, uint64_t word) { return mix(word + static_cast<uint64_t>(place) * kGolden); }

// The last word is filled up with zeros.
uint64_t digest_on_host(const uint8_t* bytes, int64_t size) {
  std::atomic<uint64_t> digest{0};
  at::parallel_for(0, size / kWordBytes, kWordsOfATask, [&](int64_t begin, int64_t end) {
    uint64_t sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      uint64_t word;
      std::memcpy(&word, bytes + i * kWordBytes, kWordBytes);
      sum += at_place(i, word);
    }
    digest += sum;
  });
  if (const auto rest = size % kWordBytes; rest > 0) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + size - rest, static_cast<size_t>(rest));
    digest += at_place(size / kWordBytes, word);
  }
  return digest;
}

int64_t as_signed(uint64_t value) { return std::bit_cast<int64_t>(value); }

at::Tensor shifted(const at::Tensor& words, int by) {
  return words.bitwise_right_shift(by).bitwise_and_((int64_t{1} << (64 - by)) - 1);  // the sign is not repeated
}

// Returns what at_place() gives for words [n] int64 from this place on, added up.
at::Tensor digest_of_words(const at::Tensor& words, int64_t place) {
  auto mixed = at::arange(place, place + words.numel(), words.options());
  mixed.mul_(as_signed(kGolden)).add_(words);
  mixed.bitwise_xor_(shifted(mixed, kFirstShift)).mul_(as_signed(kFactor));
  return mixed.bitwise_xor_(shifted(mixed, kSecondShift)).sum();
}

// Returns a scalar int64 on the tensor's device.
at::Tensor digest_on_device(const at::Tensor& bytes) {
  auto digest = at::zeros({}, bytes.options().dtype(at::kLong));
  const auto size = bytes.numel();
  for (int64_t begin = 0; begin < size; begin += kWordsOnDevice * kWordBytes) {
    const auto length = std::min(size - begin, kWordsOnDevice * kWordBytes);
    auto part = bytes.narrow(0, begin, length);
    if (const auto rest = length % kWordBytes; rest > 0) {
      part = at::constant_pad_nd(part, {0, kWordBytes - rest});
    } else if (reinterpret_cast<uintptr_t>(part.data_ptr()) % kWordBytes != 0 ||
               part.storage_offset() % kWordBytes != 0) {
      part = part.clone();
    }
    digest += digest_of_words(part.view(at::kLong), begin / kWordBytes);
  }
  return digest;
}

// Returns the tensor's memory as bytes.
at::Tensor memory_of(const at::Tensor& tensor) {
  const auto dense = tensor.is_non_overlapping_and_dense() ? tensor.detach() : tensor.detach().contiguous();
  return dense.as_strided({dense.numel()}, {1}).view(at::kByte);
}

}  // namespace

std::vector<uint64_t> digests_of(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_gradients;
  std::vector<uint64_t> digests(tensors.size());
  std::vector<at::Tensor> on_device;
  std::vector<size_t> places;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    const auto bytes = memory_of(tensors[i]);
    if (bytes.is_cpu()) {
      digests[i] = digest_on_host(bytes.const_data_ptr<uint8_t>(), bytes.numel());
    } else {
      on_device.push_back(digest_on_device(bytes));
      places.push_back(i);
    }
  }
  if (on_device.empty()) return digests;
  const auto computed = at::stack(on_device).cpu();
  const auto* values = computed.const_data_ptr<int64_t>();
  for (size_t i = 0; i < places.size(); ++i) digests[places[i]] = std::bit_cast<uint64_t>(values[i]);
  return digests;
}

uint64_t digest_of(const std::vector<uint64_t>& digests) {
  uint64_t sum = 0;
  for (size_t i = 0; i < digests.size(); ++i) sum += at_place(static_cast<int64_t>(i), digests[i]);
  return sum;
}

}  // namespace ddprun
