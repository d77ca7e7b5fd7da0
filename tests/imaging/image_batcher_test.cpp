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

TEST(ImageBatcher, ChannelsLastChangesTheOrderAloneAndBf16IsTheNearestToFloat) {
  for (const int64_t channels : {1, 3}) {
    const auto store = random_pictures(20, channels, 8, 10);
    const ImageAugmentation augmentation{.crop_padding = 2, .flip = true, .cutout = 4};
    const ImageSource source{&store, &augmentation};
    const auto made = [&](const ImageForm& form, const AugmentKey* key = &kKey) {
      return make_image_batcher(source, form)->make(some_numbers(20), key).input;
    };
    EXPECT_TRUE(made({.channels_last = true}).equal(made({})));
    EXPECT_EQ(made({.channels_last = true}).strides(), at::IntArrayRef({channels * 80, 1, channels * 10, channels}));
    EXPECT_TRUE(made({.bf16 = true}).equal(made({}).to(at::kBFloat16)));
    EXPECT_TRUE(made({}, nullptr).equal(expected_batch(store, {}, some_numbers(20), kKey).input));
  }
}

TEST(ImageBatcher, RefusesANumberThatIsNoImageAndAPaddingThatTheImagesAreTooSmallFor) {
  const auto store = random_pictures(4, 1, 5, 5);
  const ImageAugmentation augmentation{.crop_padding = 5, .crop_reflect = true};
  EXPECT_THROW(make_image_batcher({&store, &augmentation}, {})->make(some_numbers(4), &kKey), UserError);
  EXPECT_THROW(make_image_batcher({&store}, {})->make(at::tensor({4}, at::kLong), nullptr), std::out_of_range);
}

}  // namespace
}  // namespace ddprun
