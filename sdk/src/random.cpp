// SPDX-License-Identifier: MIT
#include <ddprun/philox.h>
#include <ddprun/random.h>

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

namespace ddprun {
namespace {

__extension__ using Uint128 = unsigned __int128;

uint32_t low(uint64_t word) { return static_cast<uint32_t>(word); }
uint32_t high(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  const auto block = philox_block({{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]);
  return {block.words[0], block.words[1], block.words[2], block.words[3]};
}

RandomStream::RandomStream(uint64_t seed, uint64_t stream, uint32_t substream)
    : counter_{0, substream, low(stream), high(stream)}, key_{low(seed), high(seed)} {}

uint32_t RandomStream::next() {
  if (used_ == 4) {
    block_ = philox(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

double RandomStream::uniform() {
  const uint64_t bits = (uint64_t{next()} << 32) | next();
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

double RandomStream::uniform(double low, double high) { return low + (high - low) * uniform(); }

double RandomStream::normal() {  // Box and Muller, 1958
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

uint64_t RandomStream::below(uint64_t bound) {  // Lemire: "Fast random integer generation in an interval", 2019
  const uint64_t threshold = -bound % bound;
  while (true) {
    const uint64_t bits = (uint64_t{next()} << 32) | next();
    const auto product = static_cast<Uint128>(bits) * bound;
    if (static_cast<uint64_t>(product) >= threshold) return static_cast<uint64_t>(product >> 64);
  }
}

at::Tensor uniform_for_samples(uint64_t seed, int64_t epoch, const at::Tensor& index, int64_t draws) {
  const auto samples = index.to(at::kLong).contiguous();
  auto result = at::empty({samples.numel(), draws}, at::kFloat);
  const auto* sample = samples.const_data_ptr<int64_t>();
  auto* out = result.data_ptr<float>();
  for (int64_t row = 0; row < samples.numel(); ++row) {
    RandomStream stream(seed, static_cast<uint64_t>(sample[row]), static_cast<uint32_t>(epoch));
    for (int64_t draw = 0; draw < draws; ++draw) *out++ = philox_unit(stream.next());
  }
  return result;
}

}  // namespace ddprun
