// SPDX-License-Identifier: MIT
#include "weights/tensor_digest.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <string_view>

namespace ddprun {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;  // 2^64 / the golden ratio
constexpr uint64_t kFactor = 0xBF58476D1CE4E5B9;  // odd, of the generator SplitMix64
constexpr int kFirstShift = 32, kSecondShift = 29;
constexpr int64_t kWordBytes = sizeof(uint64_t);
constexpr int64_t kWordsOfATask = 1 << 16;
constexpr int64_t kFirstOnHost = int64_t{1} << 62;  // place of the first word on the host

uint64_t mix(uint64_t word) {
  word = (word ^ (word >> kFirstShift)) * kFactor;
  return word ^ (word >> kSecondShift);
}

uint64_t at_place(int64_t place, uint64_t word) { return mix(word + static_cast<uint64_t>(place) * kGolden); }

int64_t words_in(int64_t bytes) { return (bytes + kWordBytes - 1) / kWordBytes; }

uint64_t digest_on_host(const uint8_t* bytes, int64_t size, int64_t place) {
  std::atomic<uint64_t> digest{0};
  at::parallel_for(0, size / kWordBytes, kWordsOfATask, [&](int64_t begin, int64_t end) {
    uint64_t sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      uint64_t word;
      std::memcpy(&word, bytes + i * kWordBytes, kWordBytes);
      sum += at_place(place + i, word);
    }
    digest += sum;
  });
  if (const auto rest = size % kWordBytes; rest > 0) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + size - rest, static_cast<size_t>(rest));
    digest += at_place(place + size / kWordBytes, word);
  }
  return digest;
}

int64_t as_signed(uint64_t value) { return std::bit_cast<int64_t>(value); }

at::Tensor shifted(const at::Tensor& words, int by) {
  return words.bitwise_right_shift(by).bitwise_and_((int64_t{1} << (64 - by)) - 1);  // the sign is not repeated
}

// Mixes words [n] int64, to each of which its place's multiple has been added, and adds them up.
at::Tensor digest_of_words(at::Tensor mixed) {
  mixed.bitwise_xor_(shifted(mixed, kFirstShift)).mul_(as_signed(kFactor));
  return mixed.bitwise_xor_(shifted(mixed, kSecondShift)).sum();
}

// Returns how many bytes of so many on a GPU are digested at once: their memory is taken four times, which a training
// may not have, and each portion costs a dozen kernels.
int64_t portion_of(int64_t bytes) {
  constexpr int64_t kLeast = int64_t{2} << 20, kPortions = 256;
  return std::max(kLeast, bytes / kPortions / kWordBytes * kWordBytes);
}

// Adds up the digests of what lies on a GPU.
class DeviceDigest {
 public:
  explicit DeviceDigest(int64_t portion) : portion_(portion) {}

  // Adds bytes whose first word has this place.
  void add(const at::Tensor& bytes, int64_t place) {
    for (int64_t begin = 0; begin < bytes.numel(); begin += portion_) {
      auto part = bytes.narrow(0, begin, std::min(portion_, bytes.numel() - begin));
      if (const auto rest = part.numel() % kWordBytes; rest > 0)
        part = at::constant_pad_nd(part, {0, kWordBytes - rest});
      const auto words = waiting_ / kWordBytes, first = place + begin / kWordBytes;
      if (runs_.empty() || first - words != runs_.back().offset) runs_.push_back({words, first - words});
      parts_.push_back(part);
      waiting_ += part.numel();
      if (waiting_ >= portion_) flush();
    }
  }

  uint64_t take() {
    flush();
    return sum_.defined() ? std::bit_cast<uint64_t>(sum_.item<int64_t>()) : 0;
  }

 private:
  // Words that wait, from `begin` on, whose places are their numbers there and `offset`.
  struct Run {
    int64_t begin, offset;
  };

  void flush() {
    if (parts_.empty()) return;
    const auto words = at::cat(parts_).view(at::kLong);
    auto mixed = at::arange(words.numel(), words.options());
    for (size_t i = 0; i < runs_.size(); ++i) {
      const auto end = i + 1 < runs_.size() ? runs_[i + 1].begin : words.numel();
      if (runs_[i].offset != 0) mixed.narrow(0, runs_[i].begin, end - runs_[i].begin).add_(runs_[i].offset);
    }
    const auto digest = digest_of_words(mixed.mul_(as_signed(kGolden)).add_(words));
    sum_ = sum_.defined() ? sum_ + digest : digest;
    parts_.clear();
    runs_.clear();
    waiting_ = 0;
  }

  int64_t portion_;                // bytes
  std::vector<at::Tensor> parts_;  // of whole words
  std::vector<Run> runs_;
  int64_t waiting_ = 0;  // bytes of them
  at::Tensor sum_;       // int64, on the GPU
};

// Returns the tensor's memory as bytes.
at::Tensor memory_of(const at::Tensor& tensor) {
  const auto dense = tensor.is_non_overlapping_and_dense() ? tensor.detach() : tensor.detach().contiguous();
  return dense.as_strided({dense.numel()}, {1}).view(at::kByte);
}

// Returns the digest of tensors whose first words have these places.
uint64_t digest_at(const std::vector<at::Tensor>& tensors, const std::vector<int64_t>& places) {
  const at::NoGradGuard no_gradients;
  int64_t there = 0;
  for (const auto& tensor : tensors)
    if (tensor.defined() && !tensor.is_cpu()) there += static_cast<int64_t>(tensor.nbytes());
  DeviceDigest on_device(portion_of(there));
  uint64_t on_host = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    const auto bytes = memory_of(tensors[i]);
    if (bytes.is_cpu()) {
      on_host += digest_on_host(bytes.const_data_ptr<uint8_t>(), bytes.numel(), places[i]);
    } else {
      on_device.add(bytes, places[i]);
    }
  }
  return on_host + on_device.take();
}

// FNV-1a, without its upper two bits: places may be added up.
int64_t place_of(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char letter : name) hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001B3;
  return static_cast<int64_t>(mix(hash) >> 2);
}

}  // namespace

uint64_t digest_of(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> places;
  int64_t on_host = kFirstOnHost, on_device = 0;
  for (const auto& tensor : tensors) {
    auto& next = tensor.defined() && tensor.is_cpu() ? on_host : on_device;
    places.push_back(next);
    if (tensor.defined()) next += words_in(static_cast<int64_t>(tensor.nbytes()));
  }
  return digest_at(tensors, places);
}

uint64_t digest_of(const std::vector<std::string>& names, const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> places;
  for (const auto& name : names) places.push_back(place_of(name));
  return digest_at(tensors, places);
}

}  // namespace ddprun
