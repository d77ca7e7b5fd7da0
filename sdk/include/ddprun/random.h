// SPDX-License-Identifier: MIT
// Random numbers as a pure function of where they are used, for augmentation and generated data: the same on every
// machine, in any order, with any number of workers. Safe to call from any thread.
//
// The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <ddprun/api.h>

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

namespace ddprun {

// Returns four random 32-bit words for this counter under this key.
DDPRUN_API std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// A stream of draws for one purpose: the key is (seed, stream), the counter goes up.
class DDPRUN_API RandomStream {
 public:
  // `stream` separates uses under the same seed, `substream` separates samples or epochs.
  RandomStream(uint64_t seed, uint64_t stream, uint32_t substream = 0);

  uint32_t next();                          // any of 2^32
  double uniform();                         // in [0, 1)
  double uniform(double low, double high);  // in [low, high)
  double normal();                          // mean 0, variance 1
  uint64_t below(uint64_t bound);           // in [0, bound), without bias; bound >= 1

  // Brings the values into random order (Fisher, Yates; Durstenfeld: "Algorithm 235", CACM 1964), each equally likely.
  template <class Values>
  void shuffle(Values& values) {
    for (auto last = std::ssize(values) - 1; last > 0; --last) {
      const auto other = below(static_cast<uint64_t>(last) + 1);
      std::swap(values[static_cast<size_t>(last)], values[static_cast<size_t>(other)]);
    }
  }

 private:
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

// Returns [B, draws] float32 in [0, 1) on the CPU. Row b depends only on (seed, epoch, index[b]). `index` is [B] int64.
DDPRUN_API at::Tensor uniform_for_samples(uint64_t seed, int64_t epoch, const at::Tensor& index, int64_t draws);

}  // namespace ddprun
