// SPDX-License-Identifier: MIT
#include <ddprun/error.h>
#include <ddprun/image_augment.h>
#include <ddprun/random.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace ddprun {
namespace {

constexpr int64_t kHeight = 9, kWidth = 12;
constexpr AugmentKey kKey = {.seed = 3, .epoch = 5};
const std::vector<double> kBlack = {-1.5, -2};

at::Tensor images(int64_t count) { return at::rand({count, 2, kHeight, kWidth}); }

// One sample at a time, one pixel at a time.
at::Tensor expected(const ImageAugmentation& how, const at::Tensor& image, int64_t number, const AugmentKey& key) {
  const auto draws = uniform_for_samples(key.seed, key.epoch, at::tensor({number}, at::kLong), 5);
  const auto draw = [&](int64_t i, int64_t bound) {
    return static_cast<int64_t>(draws[0][i].item<float>() * static_cast<float>(bound));
  };
  const int64_t places = 2 * how.crop_padding + 1;
  const int64_t dy = draw(0, places) - how.crop_padding, dx = draw(1, places) - how.crop_padding;
  const bool mirror = how.flip && draws[0][2].item<float>() < 0.5F;
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

TEST(ImageAugmentation, DoesToEachSampleWhatALoopWould) {
  const auto input = images(6);
  const auto index = at::tensor({4, 0, 17, 3, 99, 5}, at::kLong);
  const std::array<ImageAugmentation, 5> ways = {{{.crop_padding = 3},
                                                  {.crop_padding = 3, .crop_reflect = true},
                                                  {.flip = true},
                                                  {.cutout = 5},
                                                  {.crop_padding = 2, .flip = true, .cutout = 4}}};
  for (const auto& how : ways) {
    const auto result = how.apply(input, index, kKey, kBlack);
    for (int64_t b = 0; b < 6; ++b) {
      EXPECT_TRUE(result[b].equal(expected(how, input[b], index[b].item<int64_t>(), kKey)))
          << "sample " << b << " padding " << how.crop_padding << " cutout " << how.cutout;
    }
  }
}

TEST(ImageAugmentation, IsTheSameForAnySplitIntoRanks) {
  const ImageAugmentation how = {.crop_padding = 4, .flip = true, .cutout = 3};
  const auto input = images(12);
  const auto index = at::randperm(1000, at::kLong).narrow(0, 0, 12).contiguous();
  const auto whole = how.apply(input, index, kKey, kBlack);
  for (const int64_t ranks : {2, 3, 4}) {
    std::vector<at::Tensor> parts;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t count = 12 / ranks;
      parts.push_back(
          how.apply(input.narrow(0, rank * count, count), index.narrow(0, rank * count, count), kKey, kBlack));
    }
    EXPECT_TRUE(at::cat(parts).equal(whole)) << ranks;
  }
}

TEST(ImageAugmentation, PaddingWithTheBlackOfNormalizationEqualsPaddingBeforeIt) {
  const ImageAugmentation how = {.crop_padding = 3, .flip = true};
  const auto pixels = images(8);
  const auto mean = at::tensor({0.3, 0.6}, at::kFloat).view({1, 2, 1, 1}),
             std = at::tensor({0.2, 0.5}, at::kFloat).view({1, 2, 1, 1});
  const auto index = at::arange(8, at::kLong);
  const auto before = (how.apply(pixels, index, kKey, {0, 0}) - mean) / std;
  const auto after = how.apply((pixels - mean) / std, index, kKey, {-0.3 / 0.2, -0.6 / 0.5});
  EXPECT_TRUE(before.allclose(after, 0, 1e-6));
}

// docs/plugins.md tells it to authors of datasets: what is padded has no class, -100.
TEST(ImageAugmentation, MovesAMaskAsItsPicture) {
  const ImageAugmentation how = {.crop_padding = 3, .flip = true};
  const auto classes = at::randint(5, {8, kHeight, kWidth}, at::kLong), index = at::arange(8, at::kLong);
  const auto picture = how.apply(classes.unsqueeze(1).expand({-1, 2, -1, -1}).to(at::kFloat), index, kKey, {-1, -1});
  const auto mask = how.apply(classes.unsqueeze(1).to(at::kFloat), index, kKey, {-100}).squeeze(1).to(at::kLong);
  EXPECT_TRUE(mask.equal(at::where(picture.select(1, 0).eq(-1), -100, picture.select(1, 0)).to(at::kLong)));
  EXPECT_FALSE(mask.equal(classes));
}

TEST(ImageAugmentation, DiffersBySampleEpochAndSeed) {
  const ImageAugmentation how = {.crop_padding = 4, .flip = true};
  const auto one = images(1);
  const auto input = one.expand({32, -1, -1, -1});
  const auto index = at::arange(32, at::kLong);
  const auto result = how.apply(input, index, kKey, kBlack);
  int64_t different = 0;
  for (int64_t b = 1; b < 32; ++b) different += result[b].equal(result[0]) ? 0 : 1;
  EXPECT_GE(different, 28);
  EXPECT_FALSE(how.apply(input, index, {.seed = 3, .epoch = 6}, kBlack).equal(result));
  EXPECT_FALSE(how.apply(input, index, {.seed = 4, .epoch = 5}, kBlack).equal(result));
}

// Which of the samples `index` show their other side in this epoch, [B] bool. No image is its own mirror image.
at::Tensor mirrored_of(const ImageAugmentation& how, const at::Tensor& index, int64_t epoch) {
  const auto one = at::arange(2 * kHeight * kWidth, at::kFloat).view({1, 2, kHeight, kWidth});
  const auto input = one.expand({index.size(0), -1, -1, -1});
  const auto result = how.apply(input, index, {.seed = 3, .epoch = epoch}, kBlack);
  const auto mirror = result.eq(input.flip(3)).flatten(1).all(1);
  EXPECT_TRUE(mirror.logical_xor(result.eq(input).flatten(1).all(1)).all().item<bool>());
  return mirror;
}

TEST(AlternatingFlips, ShowEachSampleBothSidesInTwoEpochs) {
  const ImageAugmentation how = {.flip = true, .flip_alternates = true};
  const auto index = at::arange(1000, at::kLong);
  const auto first = mirrored_of(how, index, 0);
  EXPECT_NEAR(first.sum().item<double>(), 500, 80);
  for (int64_t epoch = 1; epoch < 6; ++epoch) {
    EXPECT_TRUE(mirrored_of(how, index, epoch).equal(epoch % 2 == 0 ? first : first.logical_not())) << epoch;
  }
  const ImageAugmentation random = {.flip = true};
  EXPECT_FALSE(mirrored_of(random, index, 1).equal(first.logical_not()));
  EXPECT_FALSE(mirrored_of(random, index, 2).equal(first));
}

TEST(AlternatingFlips, BeginAsRandomOnesDo) {
  const auto index = at::arange(100, at::kLong);
  EXPECT_TRUE(
      mirrored_of({.flip = true, .flip_alternates = true}, index, 0).equal(mirrored_of({.flip = true}, index, 0)));
}

TEST(AlternatingFlips, DoNotDependOnTheBatch) {
  const ImageAugmentation how = {.flip = true, .flip_alternates = true};
  for (const int64_t epoch : {0, 1, 2}) {
    const auto all = mirrored_of(how, at::arange(64, at::kLong), epoch);
    const auto index = at::randperm(64, at::kLong).narrow(0, 0, 20).contiguous();
    EXPECT_TRUE(mirrored_of(how, index, epoch).equal(all.index_select(0, index))) << epoch;
  }
}

TEST(AlternatingFlips, LeaveCropAndCutoutAsTheyAre) {
  const auto input = images(32);
  const auto index = at::arange(32, at::kLong);
  const ImageAugmentation random = {.crop_padding = 2, .cutout = 3};
  const ImageAugmentation alternating = {.crop_padding = 2, .flip_alternates = true, .cutout = 3};
  EXPECT_TRUE(random.apply(input, index, kKey, kBlack).equal(alternating.apply(input, index, kKey, kBlack)));
  const ImageAugmentation flipping = {.crop_padding = 2, .flip = true, .flip_alternates = true, .cutout = 3};
  const auto mirror = mirrored_of({.flip = true, .flip_alternates = true}, index, kKey.epoch);
  const auto result = flipping.apply(input, index, kKey, kBlack);
  const auto plain = random.apply(input, index, kKey, kBlack);
  for (int64_t b = 0; b < 32; ++b) EXPECT_NE(result[b].equal(plain[b]), mirror[b].item<bool>()) << b;
}

TEST(ImageAugmentation, ChangesNothingByDefault) {
  const auto input = images(3);
  EXPECT_TRUE(ImageAugmentation().apply(input, at::arange(3, at::kLong), kKey, kBlack).is_same(input));
}

TEST(ImageAugmentation, NamesAReflectionBeyondTheImage) {
  const ImageAugmentation how = {.crop_padding = kHeight, .crop_reflect = true};
  try {
    how.apply(images(1), at::arange(1, at::kLong), kKey, kBlack);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("crop_padding: 9 with crop_mode: reflect, but the images are 9 x 12"));
  }
}

TEST(ImageAugmentation, TakesItsDefaultsFromWhoReadsIt) {
  auto values = Value::map();
  values.set("flip", Value::scalar("true"));
  values.set("crop_mode", Value::scalar("reflect"));
  values.set("flip_mode", Value::scalar("alternating"));
  Options options(std::move(values), "dataset");
  ImageAugmentation how = {.crop_padding = 4};
  how.read(options);
  EXPECT_TRUE(options.problems().empty());
  EXPECT_EQ(how.crop_padding, 4);
  EXPECT_TRUE(how.crop_reflect);
  EXPECT_TRUE(how.flip);
  EXPECT_TRUE(how.flip_alternates);
}

}  // namespace
}  // namespace ddprun
