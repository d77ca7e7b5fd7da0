// SPDX-License-Identifier: MIT
// Small numbers; tests/differential/photo_test.py compares with torchvision.
#include <ddprun/image_augment.h>
#include <ddprun/pixel_changes.h>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

at::Tensor bytes(const std::vector<int64_t>& values, at::IntArrayRef shape) {
  return at::tensor(values, at::kLong).to(at::kByte).view(shape);
}

TEST(PixelChanges, OfValues) {
  const auto picture = bytes({0, 10, 100, 250}, {1, 2, 2});
  EXPECT_TRUE(adjust_brightness(picture, 1.5).equal(bytes({0, 15, 150, 255}, {1, 2, 2})));
  EXPECT_TRUE(adjust_contrast(picture, 0.5).equal(bytes({45, 50, 95, 170}, {1, 2, 2})));  // around 90
  EXPECT_TRUE(posterize(picture, 3).equal(bytes({0, 0, 96, 224}, {1, 2, 2})));
  EXPECT_TRUE(solarize(picture, 100).equal(bytes({0, 10, 155, 5}, {1, 2, 2})));
  EXPECT_TRUE(autocontrast(bytes({50, 60, 100, 150}, {1, 2, 2})).equal(bytes({0, 25, 127, 255}, {1, 2, 2})));
  EXPECT_TRUE(autocontrast(bytes({7, 7}, {1, 1, 2})).equal(bytes({7, 7}, {1, 1, 2})));
}

TEST(PixelChanges, EqualizeSpreadsValuesThatLieTogether) {
  const auto spread = equalize(at::arange(1024, at::kLong).div(16, "floor").add(100).to(at::kByte).view({1, 32, 32}));
  EXPECT_LE(spread.min().item<int64_t>(), 1);
  EXPECT_GE(spread.max().item<int64_t>(), 250);
  EXPECT_TRUE(spread.to(at::kInt).flatten().diff().ge(0).all().item<bool>());
}

TEST(PixelChanges, OfColours) {
  const auto red = bytes({200, 0, 0}, {3, 1, 1});
  EXPECT_TRUE(adjust_saturation(red, 0).equal(bytes({60, 60, 60}, {3, 1, 1})));
  EXPECT_TRUE(adjust_hue(red, 1.0 / 3).equal(bytes({0, 200, 0}, {3, 1, 1})));
  EXPECT_TRUE(adjust_hue(red, -1.0 / 3).equal(bytes({0, 0, 200}, {3, 1, 1})));
  const auto any = at::randint(256, {3, 9, 8}, at::kByte);
  EXPECT_TRUE(adjust_hue(any, 0).equal(any));
  const auto grey = at::randint(256, {1, 9, 8}, at::kByte);
  EXPECT_TRUE(adjust_hue(grey, 0.3).equal(grey));
  EXPECT_TRUE(adjust_saturation(grey, 0.3).equal(grey));
}

TEST(PixelChanges, SharpnessLeavesEvenPartsAndEdges) {
  auto dot = at::full({1, 5, 5}, 13, at::kByte);
  dot[0][2][2] = 26;
  const auto smooth = adjust_sharpness(dot, 0);
  EXPECT_EQ(smooth[0][2][2].item<int64_t>(), 18);
  EXPECT_EQ(smooth[0][1][1].item<int64_t>(), 14);
  EXPECT_EQ(smooth[0][0][0].item<int64_t>(), 13);
  EXPECT_TRUE(adjust_sharpness(dot, 1).equal(dot));
}

TEST(PixelChanges, MoveWholePixelsExactly) {
  const auto picture = at::arange(24, at::kByte).add(1).view({1, 4, 6});
  auto shifted = at::zeros_like(picture);
  shifted.narrow(2, 2, 4).copy_(picture.narrow(2, 0, 4));
  EXPECT_TRUE(transform_affine(picture, {1, 0, -2, 0, 1, 0}).equal(shifted));
  const auto square = picture.narrow(2, 0, 4).contiguous();
  EXPECT_TRUE(rotate(square, 90).equal(square.rot90(1, {1, 2})));
  EXPECT_TRUE(rotate(square, 180).equal(square.rot90(2, {1, 2})));
}

TEST(PixelAugmentation, DependsOnSampleEpochAndSeedAlone) {
  const auto picture = at::randint(256, {3, 20, 24}, at::kByte);
  for (const auto& how : {ImageAugmentation{.rotation = 30}, ImageAugmentation{.color_jitter = {0.4, 0.4, 0.4, 0.1}},
                          ImageAugmentation{.trivial_augment = true}}) {
    ASSERT_TRUE(how.changes_pixels());
    int64_t otherwise = 0;
    for (int64_t sample = 0; sample < 30; ++sample) {
      const auto once = how.change_pixels(picture, sample, {.seed = 1, .epoch = 4});
      EXPECT_TRUE(how.change_pixels(picture.clone(), sample, {.seed = 1, .epoch = 4}).equal(once));
      otherwise += how.change_pixels(picture, sample, {.seed = 1, .epoch = 5}).equal(once) ? 0 : 1;
      otherwise += how.change_pixels(picture, sample, {.seed = 2, .epoch = 4}).equal(once) ? 0 : 1;
    }
    EXPECT_GE(otherwise, 40);
  }
  EXPECT_TRUE(ImageAugmentation().change_pixels(picture, 1, {}).is_same(picture));
}

TEST(Erasing, LeavesTheInputOfApplyAsItIsAndAsManyImagesAsAsked) {
  const ImageAugmentation how{.erasing = 0.25};
  const auto input = at::ones({400, 2, 12, 10}), index = at::arange(400, at::kLong);
  const auto result = how.apply(input, index, {.seed = 3}, {0, 0});
  EXPECT_TRUE(input.eq(1).all().item<bool>());
  EXPECT_NEAR(result.eq(0).flatten(1).any(1).sum().item<double>(), 100, 30);
  EXPECT_TRUE(result.select(1, 0).equal(result.select(1, 1)));
  const auto some = how.apply(input.narrow(0, 0, 7), index.narrow(0, 100, 7), {.seed = 3}, {0, 0});
  EXPECT_TRUE(some.equal(result.narrow(0, 100, 7)));
}

}  // namespace
}  // namespace ddprun
