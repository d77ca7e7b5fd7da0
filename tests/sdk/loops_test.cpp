// SPDX-License-Identifier: MIT
// The loops are compiled for several kinds of processors, of which a program runs one: here all that this processor can
// run, beside plain loops.
#include "loops/image_shape.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#define DDPRUN_LOOPS "pooled_cells.inc"
#include "loops/vector_loops.h"

namespace ddprun {
namespace {

constexpr ImageShape kShape{.height = 7, .width = 6, .channels = 37};

template <class T>
struct Results {
  std::vector<T> pooled = std::vector<T>(kShape.pooled_size()), cut = pooled, spread = std::vector<T>(kShape.size());
  std::vector<uint8_t> places = std::vector<uint8_t>(kShape.pooled_size());
  std::vector<double> sums = std::vector<double>(2 * kShape.channels);
};

template <class T>
struct Inputs {
  std::vector<T> image, gradients;
  std::vector<float> direction, numbers, row = std::vector<float>(2 * kShape.channels);
};

// bfloat16 by cutting the fraction.
template <class T>
std::vector<T> drawn(int64_t count) {
  const auto values = torch::randn({count});
  const auto* from = values.const_data_ptr<float>();
  if constexpr (std::is_same_v<T, float>) {
    return {from, from + count};
  } else {
    std::vector<T> bits;
    for (int64_t i = 0; i < count; ++i) bits.push_back(static_cast<T>(std::bit_cast<uint32_t>(from[i]) >> 16));
    return bits;
  }
}

template <class T>
Inputs<T> inputs() {
  torch::manual_seed(1);
  Inputs<T> inputs{drawn<T>(kShape.size()), drawn<T>(kShape.pooled_size()), drawn<float>(kShape.channels),
                   drawn<float>(kShape.channels)};
  for (auto& way : inputs.direction) way = way > 0 ? 1 : -1;
  return inputs;
}

template <class Pool, class Sum, class Cut, class Spread, class T>
Results<T> run(Inputs<T> in) {
  Results<T> out;
  const auto* numbers = in.numbers.data();
  Pool::run(in.image.data(), kShape, in.direction.data(), out.pooled.data(), out.places.data());
  Sum::run(in.image.data(), kShape, numbers, in.row.data(), out.sums.data());
  Cut::run(out.pooled.data(), kShape.pooled_height() * kShape.pooled_width(), kShape.channels, numbers, numbers,
           out.cut.data(), out.places.data());
  Spread::run(in.gradients.data(), out.places.data(), in.image.data(), kShape, {numbers, numbers, numbers, numbers},
              out.spread.data());
  return out;
}

template <class T>
double value_of(T value) {
  if constexpr (std::is_same_v<T, Bf16Bits>) return std::bit_cast<float>(uint32_t{value} << 16);
  return value;
}

template <class T>
T stored(double value) {
  const auto number = static_cast<float>(value);
  if constexpr (std::is_same_v<T, float>) return number;
  return static_cast<T>((std::bit_cast<uint32_t>(number) + 0x8000U) >> 16);  // to the nearest, and up from the middle
}

// The value of one image and channel at a place.
template <class T>
double at(const std::vector<T>& image, int64_t y, int64_t x, int64_t channel) {
  return value_of(image[(y * kShape.width + x) * kShape.channels + channel]);
}

// What normalization adds to the gradient of a value.
template <class T>
double norm_gradient(const Inputs<T>& in, int64_t y, int64_t x, int64_t c) {
  return (at(in.image, y, x, c) - in.numbers[c]) * in.numbers[c] + in.numbers[c];
}

// Pools one cell of one channel, cuts the result off, and spreads its gradient.
template <class T>
void pool_cell(const Inputs<T>& in, int64_t y, int64_t x, int64_t c, Results<T>& out) {
  const auto cell = (y * kShape.pooled_width() + x) * kShape.channels + c;
  int taken = 0;
  for (int place = 1; place < 4; ++place) {
    const double best = at(in.image, 2 * y + taken / 2, 2 * x + taken % 2, c);
    if (at(in.image, 2 * y + place / 2, 2 * x + place % 2, c) * in.direction[c] > best * in.direction[c]) taken = place;
  }
  const double best = at(in.image, 2 * y + taken / 2, 2 * x + taken % 2, c);
  const double scaled = best * in.numbers[c] + in.numbers[c];
  out.pooled[cell] = stored<T>(best);
  out.cut[cell] = stored<T>(scaled <= 0 ? 0 : scaled);
  out.places[cell] = static_cast<uint8_t>(scaled <= 0 ? taken + kCut : taken);
  if (scaled <= 0) return;
  const auto to = ((2 * y + taken / 2) * kShape.width + 2 * x + taken % 2) * kShape.channels + c;
  out.spread[to] = stored<T>(norm_gradient(in, 2 * y + taken / 2, 2 * x + taken % 2, c) +
                             value_of(in.gradients[cell]) * in.numbers[c]);
}

// What the vectors must give, a number at a time and in float64.
template <class T>
Results<T> plain(const Inputs<T>& in) {
  Results<T> out;
  for (int64_t c = 0; c < kShape.channels; ++c) {
    for (int64_t y = 0; y < kShape.height; ++y) {
      for (int64_t x = 0; x < kShape.width; ++x) {
        const double distance = at(in.image, y, x, c) - in.numbers[c];
        out.sums[c] += distance;
        out.sums[kShape.channels + c] += distance * distance;
        out.spread[(y * kShape.width + x) * kShape.channels + c] = stored<T>(norm_gradient(in, y, x, c));
      }
    }
    for (int64_t y = 0; y < kShape.pooled_height(); ++y) {
      for (int64_t x = 0; x < kShape.pooled_width(); ++x) pool_cell(in, y, x, c, out);
    }
  }
  return out;
}

template <class T>
void expect_near(const std::vector<T>& one, const std::vector<T>& other, double tolerance) {
  for (size_t i = 0; i < one.size(); ++i) {
    const double expected = value_of(other[i]);
    EXPECT_NEAR(value_of(one[i]), expected, tolerance * (1 + std::abs(expected))) << i;
  }
}

// Allows for processors that multiply and add at once, which round only once.
template <class T>
void expect_equal(const Results<T>& one, const Results<T>& other) {
  const double tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-2;
  EXPECT_EQ(one.pooled, other.pooled);
  EXPECT_EQ(one.places, other.places);
  expect_near(one.sums, other.sums, tolerance);
  expect_near(one.cut, other.cut, tolerance);
  expect_near(one.spread, other.spread, tolerance);
}

template <class T>
class Loops : public testing::Test {};
using Types = testing::Types<float, Bf16Bits>;
TYPED_TEST_SUITE(Loops, Types);

TYPED_TEST(Loops, AgreeWithPlainOnesOnAllKindsOfProcessors) {
  const auto in = inputs<TypeParam>();
  const auto expected = plain(in);
  expect_equal(run<sse2::PoolLoop, sse2::SumLoop, sse2::CutLoop, sse2::NormSpreadLoop>(in), expected);
#ifdef __x86_64__
  if (vector_kind() == VectorKind::kSse2) GTEST_SKIP() << "this processor has neither AVX2 nor AVX-512";
  expect_equal(run<avx2::PoolLoop, avx2::SumLoop, avx2::CutLoop, avx2::NormSpreadLoop>(in), expected);
  if (vector_kind() == VectorKind::kAvx2) GTEST_SKIP() << "this processor has no AVX-512; AVX2 agrees";
  expect_equal(run<avx512::PoolLoop, avx512::SumLoop, avx512::CutLoop, avx512::NormSpreadLoop>(in), expected);
#endif
}

}  // namespace
}  // namespace ddprun
