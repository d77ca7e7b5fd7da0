// SPDX-License-Identifier: MIT
// The GPU's kernel, compiled for the CPU: one thread in each block, block after block. What a GPU adds is checked by
// tools/gpu_check.
#include "imaging/image_batcher.h"
#include "pictures.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

namespace {

struct Index {
  unsigned int x;
};

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
Index blockIdx{0};
constexpr Index threadIdx{0}, blockDim{1};

unsigned int __float_as_uint(float value) { return std::bit_cast<unsigned int>(value); }
void __syncthreads() {}
// NOLINTEND(readability-identifier-naming)

}  // namespace

#define __device__
#define __global__
#define __shared__ static
#include "imaging/image_kernel.cu"

namespace ddprun {
namespace {

const AugmentKey kKernelKey{.seed = 99, .epoch = 1};

struct Input {
  at::Tensor pixels, table, labels, numbers, request;

  explicit Input(const ImageStore& store)
      : pixels(at::empty({store.size(), static_cast<int64_t>(store.pixels(0).size())}, at::kByte)),
        table(store.table()),
        labels(at::tensor(store.labels(), at::kLong)),
        numbers(at::arange(store.size(), at::kLong).flip(0).contiguous()),
        request(at::cat({at::tensor({kKernelKey.epoch}, at::kLong), numbers})) {
    std::copy_n(store.pixels(0).data(), pixels.numel(), pixels.mutable_data_ptr<uint8_t>());
  }
};

const long long* numbers_of(const at::Tensor& tensor) {
  static_assert(sizeof(long long) == sizeof(int64_t));
  return reinterpret_cast<const long long*>(tensor.const_data_ptr<int64_t>());
}

template <class Number, class Kernel>
void run(const Input& input, const ImageRules& rules, at::Tensor& out, at::Tensor& targets, Kernel kernel) {
  const Steps steps{out.stride(0), out.stride(1), out.stride(2), out.stride(3)};
  for (blockIdx.x = 0; blockIdx.x < input.numbers.numel(); ++blockIdx.x) {
    kernel(input.pixels.const_data_ptr<uint8_t>(), input.table.const_data_ptr<float>(), numbers_of(input.labels),
           numbers_of(input.request), rules, steps, static_cast<Number*>(out.mutable_data_ptr()),
           reinterpret_cast<long long*>(targets.mutable_data_ptr<int64_t>()));
  }
}

TEST(ImageKernel, MakesTheBitsOfTheCpuPath) {
  const auto store = random_pictures(30, 3, 11, 9);
  const Input input(store);
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    for (const auto& augmentation : augmentations()) {
      auto out = at::empty({30, 3, 11, 9}, at::TensorOptions().memory_format(format));
      auto targets = at::empty({30}, at::kLong);
      const AugmentKey of_another_epoch{.seed = kKernelKey.seed, .epoch = 7};  // the request has the one that counts
      const auto rules = image_rules({&store, &augmentation}, &of_another_epoch);
      run<float>(input, rules, out, targets, make_images_float);
      augmentation.erase(out, input.numbers, kKernelKey);  // as the batcher does after the kernel
      const auto expected = expected_batch(store, augmentation, input.numbers, kKernelKey);
      ASSERT_TRUE(out.equal(expected.input));
      ASSERT_TRUE(targets.equal(expected.target));
    }
  }
}

TEST(ImageKernel, RoundsToBfloat16AsLibTorchDoes) {
  const auto store = random_pictures(30, 3, 8, 8);
  const ImageAugmentation augmentation{.crop_padding = 2, .flip = true, .cutout = 3};
  const Input input(store);
  auto out = at::empty({30, 3, 8, 8}, at::kBFloat16), targets = at::empty({30}, at::kLong);
  run<unsigned short>(input, image_rules({&store, &augmentation}, &kKernelKey), out, targets, make_images_bfloat16);
  EXPECT_TRUE(out.equal(expected_batch(store, augmentation, input.numbers, kKernelKey).input.to(at::kBFloat16)));
}

}  // namespace
}  // namespace ddprun
