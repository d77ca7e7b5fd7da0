// SPDX-License-Identifier: MIT
// What training does to images. tests/differential/photo_test.py compares what changes pixels with torchvision; here
// are small numbers.
#include "support/error_of.h"

#include <ddprun/image_augment.h>
#include <ddprun/pixel_changes.h>
#include <ddprun/random.h>

#include <ATen/ATen.h>

namespace ddprun {
namespace {

constexpr int64_t kHeight = 9, kWidth = 12;
constexpr AugmentKey kKey = {.seed = 3, .epoch = 5};
const std::vector<double> kBlack = {-1.5, -2};

at::Tensor images(int64_t count) { return at::rand({count, 2, kHeight, kWidth}); }

// One sample at a time, one pixel at a time.
at::Tensor expected(const ImageAugmentation& how, const at::Tensor& image, int64_t number, const AugmentKey& key) {
  const auto drawn_in = [&](int64_t epoch) {
    return uniform_for_samples(key.seed, epoch, at::tensor({number}, at::kLong), 5)[0];
  };
  const auto draws = drawn_in(key.epoch);
  const auto draw = [&](int64_t i, int64_t bound) {
    return static_cast<int64_t>(draws[i].item<float>() * static_cast<float>(bound));
  };
  const int64_t places = 2 * how.crop_padding + 1;
  const int64_t dy = draw(0, places) - how.crop_padding, dx = draw(1, places) - how.crop_padding;
  const bool first_side = (how.flip_alternates ? drawn_in(0) : draws)[2].item<float>() < 0.5F;
  const bool mirror = how.flip && first_side != (how.flip_alternates && key.epoch % 2 == 1);
  const int64_t top = draw(3, kHeight) - how.cutout / 2, left = draw(4, kWidth) - how.cutout / 2;
  const auto reflect = [](int64_t at, int64_t size) { return at < 0 ? -at : (at >= size ? 2 * size - 2 - at : at); };
  auto result = at::empty_like(image);
  for (int64_t c = 0; c < 2; ++c) {
    for (int64_t y = 0; y < kHeight; ++y) {
      for (int64_t x = 0; x < kWidth; ++x) {
        int64_t from_y = y + dy, from_x = (mirror ? kWidth - 1 - x : x) + dx;
        if (how.crop_reflect) from_y = reflect(from_y, kHeight), from_x = reflect(from_x, kWidth);
        const bool outside = from_y < 0 || from_y >= kHeight || from_x < 0 || from_x >= kWidth;
        const bool cut = top <= y && y < top + how.cutout && left <= x && x < left + how.cutout;
        result[c][y][x] = outside ? at::scalar_tensor(kBlack[static_cast<size_t>(c)]) : image[c][from_y][from_x];
        if (cut) result[c][y][x] = 0;
      }
    }
  }
  return result;
}

// So each sample's result depends on its number, the seed and the epoch alone, and alternating flips show both sides.
TEST(ImageAugmentation, DoesToEachSampleWhatALoopWould) {
  const auto input = images(6);
  const auto index = at::tensor({4, 0, 17, 3, 99, 5}, at::kLong);
  const std::vector<ImageAugmentation> ways{{.crop_padding = 3},
                                            {.crop_padding = 3, .crop_reflect = true},
                                            {.flip = true},
                                            {.flip = true, .flip_alternates = true},
                                            {.cutout = 5},
                                            {.crop_padding = 2, .flip = true, .cutout = 4},
                                            {.crop_padding = 2, .flip = true, .flip_alternates = true, .cutout = 4}};
  for (const auto& how : ways) {
    for (const auto& key : {kKey, AugmentKey{.seed = 3, .epoch = 6}, AugmentKey{.seed = 4, .epoch = 0}}) {
      const auto result = how.apply(input, index, key, kBlack);
      for (int64_t b = 0; b < 6; ++b) {
        EXPECT_TRUE(result[b].equal(expected(how, input[b], index[b].item<int64_t>(), key)))
            << "sample " << b << " padding " << how.crop_padding << " cutout " << how.cutout << " epoch " << key.epoch;
      }
    }
  }
  EXPECT_TRUE(ImageAugmentation().apply(input, index, kKey, kBlack).is_same(input)) << "nothing by default";
}

// docs/plugins.md says it to authors of datasets: what is padded has no class, -100.
TEST(ImageAugmentation, MovesAMaskAsItsPicture) {
  const ImageAugmentation how = {.crop_padding = 3, .flip = true};
  const auto classes = at::randint(5, {8, kHeight, kWidth}, at::kLong), index = at::arange(8, at::kLong);
  const auto picture = how.apply(classes.unsqueeze(1).expand({-1, 2, -1, -1}).to(at::kFloat), index, kKey, {-1, -1});
  const auto mask = how.apply(classes.unsqueeze(1).to(at::kFloat), index, kKey, {-100}).squeeze(1).to(at::kLong);
  EXPECT_TRUE(mask.equal(at::where(picture.select(1, 0).eq(-1), -100, picture.select(1, 0)).to(at::kLong)));
  EXPECT_FALSE(mask.equal(classes));
}

TEST(ImageAugmentation, ReadsItsOptionsAndNamesAReflectionBeyondTheImage) {
  auto values = Value::map();
  for (const auto& [name, value] : {std::pair("flip", "true"), {"crop_mode", "reflect"}, {"flip_mode", "alternating"}})
    values.set(name, Value::scalar(value));
  Options options(std::move(values), "dataset");
  ImageAugmentation how = {.crop_padding = kHeight};
  how.read(options);
  EXPECT_TRUE(options.problems().empty());
  EXPECT_EQ(how.crop_padding, kHeight) << "the default is that of its reader";
  EXPECT_TRUE(how.flip && how.flip_alternates && how.crop_reflect);
  EXPECT_TRUE(says(error_of([&] { how.apply(images(1), at::arange(1, at::kLong), kKey, kBlack); }),
                   "crop_padding: 9 with crop_mode: reflect, but the images are 9 x 12"));
}

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

TEST(PixelChanges, OfPlaces) {
  auto dot = at::full({1, 5, 5}, 13, at::kByte);
  dot[0][2][2] = 26;
  const auto smooth = adjust_sharpness(dot, 0);
  for (const auto& [y, x, value] : {std::tuple{2, 2, 18}, {1, 1, 14}, {0, 0, 13}})  // even parts and edges stay
    EXPECT_EQ(smooth[0][y][x].item<int64_t>(), value);
  EXPECT_TRUE(adjust_sharpness(dot, 1).equal(dot));
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
      for (const auto& key : {AugmentKey{.seed = 1, .epoch = 5}, {.seed = 2, .epoch = 4}})
        otherwise += how.change_pixels(picture, sample, key).equal(once) ? 0 : 1;
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
