// SPDX-License-Identifier: MIT
#include "weights/tensor_digest.h"

#include "support/every_dtype.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

// As the header's comment has it, one word at a time.
uint64_t expected_digest(const std::vector<at::Tensor>& tensors) {
  uint64_t sum = 0, place = uint64_t{1} << 62;
  for (const auto& tensor : tensors) {
    const auto values = tensor.contiguous();
    const auto* bytes = static_cast<const uint8_t*>(values.const_data_ptr());
    for (size_t begin = 0; begin < values.nbytes(); begin += 8, ++place) {
      uint64_t word = 0;
      for (size_t i = begin; i < std::min(values.nbytes(), begin + 8); ++i) word |= uint64_t{bytes[i]} << i % 8 * 8;
      word += place * 0x9E3779B97F4A7C15;
      word = (word ^ word >> 32) * 0xBF58476D1CE4E5B9;
      sum += word ^ word >> 29;
    }
  }
  return sum;
}
uint64_t expected_digest(const at::Tensor& tensor) { return expected_digest(std::vector{tensor}); }

uint64_t digest(const at::Tensor& tensor) { return digest_of({tensor}); }

TEST(TensorDigest, IsWhatItsCommentSays) {
  for (const int64_t size : {0, 1, 7, 8, 9, 64, 1000})
    for (const auto type : {at::kByte, at::kHalf, at::kFloat, at::kDouble, at::kBool})
      for (const int64_t offset : {0, 1, 3}) {
        const auto all = at::randint(0, 2, {size + offset}, at::dtype(type));
        const auto tensor = all.narrow(0, offset, size);
        EXPECT_EQ(digest(tensor), expected_digest(tensor)) << size << " " << type << " " << offset;
      }
}

TEST(TensorDigest, IsTheSameOnAnyNumberOfThreads) {
  const auto tensor = at::randn({300'001});
  const auto threads = at::get_num_threads();
  for (const int count : {1, 2, 3, 4}) {
    at::set_num_threads(count);
    EXPECT_EQ(digest(tensor), expected_digest(tensor)) << count;
  }
  at::set_num_threads(threads);
}

TEST(TensorDigest, ChangesWithEveryBit) {
  auto tensor = at::randn({37});
  const auto before = digest(tensor);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    auto& word = reinterpret_cast<uint32_t*>(tensor.data_ptr<float>())[i];
    for (int bit = 0; bit < 32; ++bit) {
      word ^= 1U << bit;
      EXPECT_NE(digest(tensor), before) << i << " " << bit;
      word ^= 1U << bit;
    }
  }
  EXPECT_EQ(digest(tensor), before);
  EXPECT_NE(digest(tensor.flip(0)), before);
}

TEST(TensorDigest, OfSeveralDependsOnTheirOrder) {
  const auto one = at::randn({5}), other = at::randn({5});
  EXPECT_EQ(digest_of({one, other}), expected_digest({one, other}));
  EXPECT_NE(digest_of({one, other}), digest_of({other, one}));
  EXPECT_EQ(digest_of({one, at::Tensor(), other}), digest_of({one, other}));
}

TEST(TensorDigest, OfNamedOnesAddsUpInAnyOrder) {
  const auto one = at::randn({5}), other = at::randn({7, 3});
  const auto both = digest_of({"one", "other"}, {one, other});
  EXPECT_EQ(digest_of({"other", "one"}, {other, one}), both);
  EXPECT_EQ(digest_of({"one"}, {one}) + digest_of({"other"}, {other}), both);
  EXPECT_NE(digest_of({"one", "other"}, {other, one}), both);
  EXPECT_NE(digest_of({"one", "another"}, {one, other}), both);
  EXPECT_EQ(digest_of({"one", "none", "other"}, {one, at::Tensor(), other}), both);
}

TEST(TensorDigest, TakesAnyLayoutAndType) {
  const auto picture = at::randn({2, 3, 4, 5});
  EXPECT_EQ(digest(picture.transpose(1, 3)), digest(picture)) << "the order of memory";
  EXPECT_EQ(digest(picture.slice(3, 0, 5, 2)), digest(picture.slice(3, 0, 5, 2).contiguous()));
  for (const auto& [name, tensor] : tensors_of_every_dtype())
    EXPECT_EQ(digest(tensor), expected_digest(tensor.is_contiguous() ? tensor : tensor.t())) << name;
}

}  // namespace
}  // namespace ddprun
