// SPDX-License-Identifier: MIT
#include "image_file.h"

#include "idx_writer.h"
#include "image_writer.h"
#include "resize.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::test {
namespace {

using images::decode;
using images::read_size;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ImageFile : public ::testing::Test {
 protected:
  std::vector<uint8_t> png(unsigned width, unsigned height, const std::vector<unsigned char>& bytes, PngKind kind,
                           int64_t channels, const std::vector<png_color>& palette = {},
                           const std::vector<unsigned char>& palette_alpha = {}) {
    write_png(file_, width, height, bytes, kind, palette, palette_alpha);
    return decode({.file = file_}, channels).bytes;
  }

  std::string problem() {
    return message_of<UserError>([&] { decode({.file = file_}, 3); });
  }

  TestFolder folder_;
  const std::filesystem::path file_ = folder_ / "picture";
};

TEST_F(ImageFile, ReadsEveryKindOfPng) {
  EXPECT_THAT(png(2, 1, {1, 2, 3, 4, 5, 6}, {}, 3), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(png(2, 1, {7, 8}, {PNG_COLOR_TYPE_GRAY}, 1), ElementsAre(7, 8));
  EXPECT_THAT(png(2, 1, {7, 8}, {PNG_COLOR_TYPE_GRAY}, 3), ElementsAre(7, 7, 7, 8, 8, 8));
  EXPECT_THAT(png(1, 1, {255, 0, 0}, {}, 1), ElementsAre(76));
  EXPECT_THAT(png(1, 1, {1, 2, 3, 0}, {PNG_COLOR_TYPE_RGB_ALPHA}, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(png(1, 1, {9, 0}, {PNG_COLOR_TYPE_GRAY_ALPHA}, 1), ElementsAre(9));
  EXPECT_THAT(png(1, 1, {255, 255, 128, 0, 0, 0}, {PNG_COLOR_TYPE_RGB, 16}, 3), ElementsAre(255, 128, 0));
  EXPECT_THAT(png(3, 1, {0xA0}, {PNG_COLOR_TYPE_GRAY, 1}, 1), ElementsAre(255, 0, 255));
  EXPECT_THAT(png(2, 1, {1, 0}, {PNG_COLOR_TYPE_PALETTE}, 3, {{10, 20, 30}, {40, 50, 60}}),
              ElementsAre(40, 50, 60, 10, 20, 30));
  EXPECT_THAT(png(2, 1, {1, 0}, {PNG_COLOR_TYPE_PALETTE}, 3, {{10, 20, 30}, {40, 50, 60}}, {0, 128}),
              ElementsAre(40, 50, 60, 10, 20, 30));
  std::vector<unsigned char> many(3 * 9 * 7);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<unsigned char>(i);
  EXPECT_EQ(png(9, 7, many, {PNG_COLOR_TYPE_RGB, 8, PNG_INTERLACE_ADAM7}, 3), many);
}

TEST_F(ImageFile, ReadsGreyAndColourJpegs) {
  write_jpeg(file_, 20, 10, {200, 40, 90});
  const auto colour = decode({.file = file_}, 3);
  EXPECT_EQ(colour.size.width, 20);
  EXPECT_EQ(colour.size.height, 10);
  EXPECT_NEAR(colour.bytes[0], 200, 3);
  EXPECT_NEAR(colour.bytes[1], 40, 3);
  EXPECT_NEAR(decode({.file = file_}, 1).bytes[0], 0.299 * 200 + 0.587 * 40 + 0.114 * 90, 3);
  write_jpeg(file_, 20, 10, {77});
  EXPECT_THAT(decode({.file = file_}, 3).bytes, Each(77));
  EXPECT_THAT(decode({.file = file_}, 1).bytes, Each(77));
}

TEST_F(ImageFile, RefusesCmykByName) {
  write_jpeg(file_, 20, 10, {1, 2, 3, 4});
  EXPECT_THAT(problem(), AllOf(HasSubstr("/picture: is a CMYK JPEG"), HasSubstr("convert it")));
}

TEST_F(ImageFile, NamesWhatIsNoPicture) {
  EXPECT_THAT(problem(), HasSubstr("/picture: cannot be opened: No such file"));
  write_file(file_, "");
  EXPECT_THAT(problem(), HasSubstr("is empty"));
  write_file(file_, "GIF89a and so on");
  EXPECT_THAT(problem(), HasSubstr("is neither PNG nor JPEG"));
  std::filesystem::remove(file_);
  std::filesystem::create_directory(file_);
  EXPECT_THAT(problem(), HasSubstr("is empty or not a file"));
}

TEST_F(ImageFile, NamesATruncatedPicture) {
  std::vector<unsigned char> noise(3 * 64 * 64);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<unsigned char>(i * i >> 3);
  write_png(file_, 64, 64, noise);
  auto bytes = read_file(file_);
  write_file(file_, bytes.substr(0, bytes.size() / 2));
  EXPECT_EQ(read_size({.file = file_}).width, 64);
  EXPECT_THAT(problem(), HasSubstr("is a damaged PNG"));
  write_jpeg(file_, 640, 640, {1, 2, 3});
  bytes = read_file(file_);
  write_file(file_, bytes.substr(0, bytes.size() - 200));
  EXPECT_EQ(read_size({.file = file_}).height, 640);
  EXPECT_THAT(problem(), HasSubstr("is a damaged JPEG (Premature end of JPEG file)"));
}

TEST_F(ImageFile, DecodesNothingThatClaimsTooMuch) {
  write_png(file_, 3, 3, 1, 2, 3);
  auto bytes = read_file(file_);
  bytes.replace(16, 8, std::string("\x00\x00\xf0\x00\x00\x00\xf0\x00", 8));  // 61440 x 61440
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(bytes.data()) + 12, 17);
  bytes.replace(29, 4, big_endian(static_cast<uint32_t>(sum)));
  write_file(file_, bytes);
  EXPECT_THAT(message_of<UserError>([&] { read_size({.file = file_}); }), HasSubstr("claims 61440 x 61440 pixels"));
  write_jpeg(file_, 16, 16, {1});
  bytes = read_file(file_);
  const auto frame = bytes.find("\xff\xc0");
  bytes.replace(frame + 5, 4, "\xff\xff\xff\xff");
  write_file(file_, bytes);
  EXPECT_THAT(problem(), HasSubstr("is a damaged JPEG"));  // more than libjpeg's own limit
}

TEST_F(ImageFile, NoChangedByteEndsTheProgram) {
  for (const bool jpeg : {false, true}) {
    jpeg ? write_jpeg(file_, 16, 12, {5, 200, 90}) : write_png(file_, 16, 12, 5, 200, 90);
    const auto good = read_file(file_);
    for (size_t i = 0; i < good.size(); i += 3) {
      auto bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ 0x55);
      write_file(file_, bytes);
      try {
        const auto pixels = decode({.file = file_}, 3);
        EXPECT_EQ(static_cast<int64_t>(pixels.bytes.size()), pixels.size.height * pixels.size.width * 3);
      } catch (const UserError&) {
      }
    }
  }
}

TEST(ResizedSquare, CutsTheMiddle) {
  images::Pixels pixels{.size = {2, 6}, .channels = 1, .bytes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};
  EXPECT_TRUE(images::resized_square(pixels, 2, 2).equal(at::tensor({2, 3, 8, 9}, at::kByte).view({1, 2, 2})));
}

TEST(ResizedSquare, KeepsAColourAtAnySize) {
  for (const auto& size : {images::Size{1, 1}, {1, 50'000}, {3'000, 2}, {300, 200}, {20, 31}}) {
    images::Pixels pixels{.size = size, .channels = 3};
    for (int64_t i = 0; i < size.height * size.width; ++i) pixels.bytes.insert(pixels.bytes.end(), {10, 20, 200});
    const auto square = images::resized_square(pixels, 40, 32);
    EXPECT_EQ(square.sizes(), (std::vector<int64_t>{3, 32, 32}));
    for (const auto& [channel, value] : {std::pair{0, 10}, {1, 20}, {2, 200}}) {
      EXPECT_TRUE(square[channel].eq(value).all().item<bool>()) << size.height << " x " << size.width;
    }
  }
}

TEST(ResizedSquare, AveragesWhereItShrinks) {
  images::Pixels pixels{.size = {64, 64}, .channels = 1};
  for (int i = 0; i < 64 * 64; ++i) pixels.bytes.push_back((i + i / 64) % 2 ? 255 : 0);  // a chess board
  const auto square = images::resized_square(pixels, 8, 8);
  EXPECT_GT(square.min().item<int64_t>(), 118);
  EXPECT_LT(square.max().item<int64_t>(), 138);
}

}  // namespace
}  // namespace ddprun::test
