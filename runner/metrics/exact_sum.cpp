// SPDX-License-Identifier: MIT
#include "metrics/exact_sum.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace ddprun {
namespace {

constexpr int kMantissaBits = 52, kChunkBits = 32;
constexpr int kLowestExponent = -1075;  // of the first chunk's unit
constexpr uint64_t kChunkMask = 0xFFFFFFFF;

// Returns the double nearest to chunks of 32 bits each, the least significant first.
double nearest(std::span<const int64_t> chunks) {
  const auto bits_at = [&](int chunk) {
    return chunk < 0 ? 0 : static_cast<uint64_t>(chunks[static_cast<size_t>(chunk)]);
  };
  auto top = static_cast<int>(chunks.size()) - 1;
  while (top > 0 && bits_at(top) == 0) --top;
  if (bits_at(top) == 0) return 0;
  // The 64 highest bits, the first of which is set, and whether any bit below them is.
  const auto pair = bits_at(top) << kChunkBits | bits_at(top - 1), third = bits_at(top - 2);
  const int shift = std::countl_zero(pair);
  const auto highest = shift == 0 ? pair : pair << shift | third >> (kChunkBits - shift);
  bool rest = (third << shift & kChunkMask) != 0;
  for (int chunk = top - 3; chunk >= 0 && !rest; --chunk) rest = bits_at(chunk) != 0;
  constexpr int kBelow = 63 - kMantissaBits;
  constexpr uint64_t kHalf = uint64_t{1} << (kBelow - 1);
  const auto mantissa = highest >> kBelow, below = highest & ((uint64_t{1} << kBelow) - 1);
  const bool rounds_up = below > kHalf || (below == kHalf && (rest || mantissa % 2 == 1));
  return std::ldexp(static_cast<double>(mantissa + (rounds_up ? 1 : 0)),
                    kLowestExponent + kChunkBits * (top - 1) - shift + kBelow);
}

}  // namespace

ExactSum::ExactSum(std::span<const int64_t, kWords> words) {
  std::ranges::copy(words, words_.begin());
  carry();
}

void ExactSum::add(double value) {
  constexpr int64_t kMost = 1024;  // each adds less than 2^53 to a chunk
  if (!std::isfinite(value)) {
    ++words_[std::isnan(value) ? kNan : value > 0 ? kInfinity : kMinusInfinity];
    return;
  }
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto exponent_bits = static_cast<int>(bits >> kMantissaBits & 0x7FF);
  const auto fraction = bits & ((uint64_t{1} << kMantissaBits) - 1);
  const auto mantissa = exponent_bits == 0 ? fraction : fraction | uint64_t{1} << kMantissaBits;
  const int exponent = std::max(exponent_bits, 1);  // that of subnormal numbers is the least of the others
  const auto chunk = static_cast<size_t>(exponent / kChunkBits);
  const int shift = exponent % kChunkBits;
  const auto low = static_cast<int64_t>((mantissa << shift) & kChunkMask);
  const auto high = static_cast<int64_t>(mantissa >> (kChunkBits - shift));
  const int64_t sign = value < 0 ? -1 : 1;
  words_[chunk] += sign * low;
  words_[chunk + 1] += sign * high;
  if (++uncarried_ >= kMost) carry();
}

void ExactSum::add(const ExactSum& other) {
  auto mine = *this, others = other;
  mine.carry();
  others.carry();
  for (size_t i = 0; i < kWords; ++i) words_[i] = mine.words_[i] + others.words_[i];
  carry();
}

const ExactSum::Words& ExactSum::words() {
  carry();
  return words_;
}

// Leaves 32 bits in each chunk but the last, which has the sign.
void ExactSum::carry() {
  for (size_t i = 0; i + 1 < kChunks; ++i) {
    words_[i + 1] += words_[i] >> kChunkBits;
    words_[i] &= static_cast<int64_t>(kChunkMask);
  }
  uncarried_ = 0;
}

double ExactSum::value() const {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const bool up = words_[kInfinity] > 0, down = words_[kMinusInfinity] > 0;
  if (words_[kNan] > 0 || (up && down)) return std::numeric_limits<double>::quiet_NaN();
  if (up || down) return up ? kInfinite : -kInfinite;
  auto sum = *this;
  sum.carry();
  const bool negative = sum.words_[kChunks - 1] < 0;
  if (negative) {
    for (size_t i = 0; i < kChunks; ++i) sum.words_[i] = -sum.words_[i];
    sum.carry();
  }
  const auto magnitude = nearest(std::span(sum.words_).first(kChunks));
  return negative ? -magnitude : magnitude;
}

at::Tensor words_of(std::vector<ExactSum> sums) {
  auto words = at::empty({std::ssize(sums), static_cast<int64_t>(ExactSum::kWords)}, at::kLong);
  auto* row = words.data_ptr<int64_t>();
  for (auto& sum : sums) row = std::ranges::copy(sum.words(), row).out;
  return words;
}

std::vector<ExactSum> sums_of(const at::Tensor& words) {
  const auto dense = words.contiguous();
  const auto* row = dense.const_data_ptr<int64_t>();
  std::vector<ExactSum> sums;
  for (int64_t i = 0; i < words.size(0); ++i, row += ExactSum::kWords)
    sums.emplace_back(std::span<const int64_t, ExactSum::kWords>(row, ExactSum::kWords));
  return sums;
}

std::string agreed(const std::string& mine, const std::string& problem, Communicator& communicator) {
  std::string first;
  for (const auto& theirs : communicator.gather_texts(mine)) {
    if (first.empty()) first = theirs;
    if (!theirs.empty() && theirs != first) throw UserError(problem + first + " and " + theirs);
  }
  return first;
}

}  // namespace ddprun
