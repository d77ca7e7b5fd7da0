// SPDX-License-Identifier: MIT
// The loops are compiled for several kinds of processors, of which a program runs one: pooling_test.cpp compares that
// with LibTorch, and here all that this processor can run agree.
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

TYPED_TEST(Loops, AgreeOnAllKindsOfProcessors) {
#ifdef __x86_64__
  const auto in = inputs<TypeParam>();
  const auto expected = run<sse2::PoolLoop, sse2::SumLoop, sse2::CutLoop, sse2::NormSpreadLoop>(in);
  if (vector_kind() == VectorKind::kSse2) GTEST_SKIP() << "this processor has neither AVX2 nor AVX-512";
  expect_equal(run<avx2::PoolLoop, avx2::SumLoop, avx2::CutLoop, avx2::NormSpreadLoop>(in), expected);
  if (vector_kind() == VectorKind::kAvx2) GTEST_SKIP() << "this processor has no AVX-512; AVX2 agrees";
  expect_equal(run<avx512::PoolLoop, avx512::SumLoop, avx512::CutLoop, avx512::NormSpreadLoop>(in), expected);
#else
  GTEST_SKIP() << "there is one kind of this processor";
#endif
}

}  // namespace
}  // namespace ddprun
