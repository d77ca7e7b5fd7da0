// SPDX-License-Identifier: MIT
#include "imaging/image_batcher.h"

#include "pictures.h"

#include <ddprun/error.h>

#include <gtest/gtest.h>

namespace ddprun {
namespace {

const AugmentKey kKey{.seed = 0x1234567890AB, .epoch = 3};

at::Tensor some_numbers(int64_t count) { return at::arange(count, at::kLong).mul(7).remainder(count).contiguous(); }

TEST(ImageBatcher, MakesTheBitsOfGatherAndAugment) {
  for (const int64_t channels : {1, 3}) {
    const auto store = random_pictures(40, channels, 11, 9);
    const auto numbers = some_numbers(40);
    for (const auto& augmentation : augmentations()) {
      for (const int64_t epoch : {0, 1, 5}) {
        const AugmentKey key{.seed = kKey.seed, .epoch = epoch};
        const auto batch = make_image_batcher({&store, &augmentation}, {})->make(numbers, &key);
        const auto expected = expected_batch(store, augmentation, numbers, key);
        ASSERT_TRUE(batch.input.equal(expected.input)) << channels << " channels, padding " << augmentation.crop_padding
                                                       << ", cutout " << augmentation.cutout << ", epoch " << epoch;
        ASSERT_TRUE(batch.target.equal(expected.target));
        ASSERT_TRUE(batch.index.equal(numbers));
      }
    }
  }
}

TEST(ImageBatcher, ChannelsLastChangesTheOrderAlone) {
  for (const int64_t channels : {1, 3}) {
    const auto store = random_pictures(20, channels, 8, 10);
    const ImageAugmentation augmentation{.crop_padding = 2, .flip = true, .cutout = 4};
    const ImageSource source{&store, &augmentation};
    const auto first = make_image_batcher(source, {})->make(some_numbers(20), &kKey);
    const auto last = make_image_batcher(source, {.channels_last = true})->make(some_numbers(20), &kKey);
    EXPECT_TRUE(last.input.equal(first.input));
    EXPECT_EQ(last.input.strides(), at::IntArrayRef({channels * 80, 1, channels * 10, channels}));
  }
}

TEST(ImageBatcher, Bf16IsTheNearestToFloat) {
  const auto store = random_pictures(20, 3, 8, 8);
  const auto exact = make_image_batcher({&store}, {})->make(some_numbers(20), nullptr);
  const auto rounded = make_image_batcher({&store}, {.bf16 = true})->make(some_numbers(20), nullptr);
  EXPECT_TRUE(rounded.input.equal(exact.input.to(at::kBFloat16)));
}

TEST(ImageBatcher, WithoutAKeyNothingIsAugmented) {
  const auto store = random_pictures(10, 3, 8, 8);
  const ImageAugmentation augmentation{.crop_padding = 2, .flip = true, .cutout = 4};
  const auto plain = make_image_batcher({&store, &augmentation}, {})->make(some_numbers(10), nullptr);
  EXPECT_TRUE(plain.input.equal(expected_batch(store, {}, some_numbers(10), kKey).input));
}

TEST(ImageBatcher, RefusesAPaddingThatTheImagesAreTooSmallFor) {
  const auto store = random_pictures(4, 1, 5, 5);
  const ImageAugmentation augmentation{.crop_padding = 5, .crop_reflect = true};
  const auto batcher = make_image_batcher({&store, &augmentation}, {});
  EXPECT_THROW(batcher->make(some_numbers(4), &kKey), UserError);
}

TEST(ImageBatcher, RefusesANumberThatIsNoImage) {
  const auto store = random_pictures(4, 1, 5, 5);
  EXPECT_THROW(make_image_batcher({&store}, {})->make(at::tensor({4}, at::kLong), nullptr), std::out_of_range);
}

}  // namespace
}  // namespace ddprun
