// SPDX-License-Identifier: MIT
#include "image_file.h"

#include "exif.h"
#include "idx_writer.h"
#include "image_writer.h"
#include "resize.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <fstream>
#include <map>

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
    return decode(file_, channels).bytes;
  }

  std::string problem() {
    return message_of<UserError>([&] { decode(file_, 3); });
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
  const auto colour = decode(file_, 3);
  EXPECT_EQ(colour.size.width, 20);
  EXPECT_EQ(colour.size.height, 10);
  EXPECT_NEAR(colour.bytes[0], 200, 3);
  EXPECT_NEAR(colour.bytes[1], 40, 3);
  EXPECT_NEAR(decode(file_, 1).bytes[0], 0.299 * 200 + 0.587 * 40 + 0.114 * 90, 3);
  write_jpeg(file_, 20, 10, {77});
  EXPECT_THAT(decode(file_, 3).bytes, Each(77));
  EXPECT_THAT(decode(file_, 1).bytes, Each(77));
}

// The file holds what each ink leaves white, as Photoshop writes it.
TEST_F(ImageFile, ConvertsCmyk) {
  write_jpeg(file_, 20, 10, {255, 128, 0, 204});
  const auto colour = decode(file_, 3);
  EXPECT_NEAR(colour.bytes[0], 204, 3);
  EXPECT_NEAR(colour.bytes[1], 102, 3);
  EXPECT_NEAR(colour.bytes[2], 0, 3);
  EXPECT_NEAR(decode(file_, 1).bytes[0], 0.299 * 204 + 0.587 * 102, 3);
}

TEST_F(ImageFile, DecodesThePartThatIsChosenBySize) {
  std::vector<unsigned char> many(3 * 9 * 7);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<unsigned char>(i);
  write_png(file_, 9, 7, many);
  const auto part = decode(file_, 3, {}, [](const images::Size& size) {
    return images::Cut{.box = {size.height - 2, size.width - 3, {2, 2}}};
  });
  const auto at = [&](size_t row, size_t column) { return many[3 * (9 * row + column)]; };
  ASSERT_EQ(part.bytes.size(), 12U);
  EXPECT_EQ(part.bytes[0], at(5, 6));
  EXPECT_EQ(part.bytes[3], at(5, 7));
  EXPECT_EQ(part.bytes[6], at(6, 6));
}

TEST_F(ImageFile, HalvesALargeJpegAsFarAsTheCutAllows) {
  write_jpeg(file_, 640, 480, {77});
  const auto side = [&](int64_t least) {
    return decode(file_, 1, {}, [&](const images::Size&) { return images::Cut{{40, 80, {400, 480}}, least}; }).size;
  };
  EXPECT_EQ(side(0).height, 400);
  EXPECT_EQ(side(201).height, 400);
  EXPECT_EQ(side(200).height, 200);
  EXPECT_EQ(side(200).width, 240);
  EXPECT_EQ(side(1).height, 50);
}

TEST_F(ImageFile, NamesWhatIsNoPicture) {
  EXPECT_THAT(problem(), HasSubstr("/picture: cannot be opened: No such file"));
  write_file(file_, "");
  EXPECT_THAT(problem(), HasSubstr("is empty"));
  for (const auto& [content, name] :
       std::map<std::string, std::string>{{"GIF89a and so on", "a GIF"},
                                          {"<!DOCTYPE html>\n", "a text file"},
                                          {std::string("II*\0\1", 5), "a TIFF"},
                                          {std::string("\1\2\0\3", 4), "none of these"}}) {
    write_file(file_, content);
    EXPECT_THAT(problem(), HasSubstr("/picture: is " + name + ", expected PNG, JPEG or WebP"));
  }
  std::filesystem::remove(file_);
  std::filesystem::create_directory(file_);
  EXPECT_THAT(problem(), HasSubstr("is a folder, expected a file"));
}

// Returns the most address space that this process has had, in KiB.
int64_t most_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (int64_t kib = 0; word == "VmPeak:" && status >> kib) return kib;
  }
  return 0;
}

TEST_F(ImageFile, TakesNoMemoryForWhatAPngClaimsToHave) {
  constexpr size_t kAfterSize = 33;  // behind the signature and the chunk IHDR
  write_png(file_, 3, 3, 1, 2, 3);
  const auto whole = read_file(file_);
  const auto before = most_memory();
  for (const auto* chunk : {"tEXt", "zTXt", "iTXt", "eXIf", "iCCP", "sPLT", "hIST", "prVt"}) {
    write_file(file_, whole.substr(0, kAfterSize) + "\x7f\xff\xff\xff" + chunk + whole.substr(kAfterSize));
    EXPECT_THAT(problem(), HasSubstr("is a damaged PNG")) << chunk;
    EXPECT_LT(most_memory() - before, 256 << 10) << chunk << " of 2 GiB";
  }
}

TEST_F(ImageFile, NamesATruncatedPicture) {
  std::vector<unsigned char> noise(3 * 64 * 64);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<unsigned char>(i * i >> 3);
  write_png(file_, 64, 64, noise);
  auto bytes = read_file(file_);
  write_file(file_, bytes.substr(0, bytes.size() / 2));
  EXPECT_EQ(read_size(file_).width, 64);
  EXPECT_THAT(problem(), HasSubstr("is a damaged PNG"));
  EXPECT_THAT(message_of<UserError>([&] { images::check_file(file_); }), HasSubstr("is a damaged PNG"));
  write_jpeg(file_, 640, 640, {1, 2, 3});
  bytes = read_file(file_);
  write_file(file_, bytes.substr(0, bytes.size() - 200));
  EXPECT_EQ(read_size(file_).height, 640);
  EXPECT_THAT(problem(), HasSubstr("is a damaged JPEG (Premature end of JPEG file)"));
  EXPECT_THAT(message_of<UserError>([&] { images::check_file(file_); }), HasSubstr("Premature end"));
  write_file(file_, bytes + "and more");  // after its end
  EXPECT_NO_THROW(images::check_file(file_));
}

TEST(Exif, NamesTheOrientationOfIntactDataOnly) {
  const auto orientation = [](const std::string& data) { return images::orientation_of(data); };
  const std::string little("II*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0\6\0\0\0", 22);
  const std::string big("MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\3\0\0", 22);
  EXPECT_EQ(orientation(little), 6);
  EXPECT_EQ(orientation(big), 3);
  for (size_t length = 0; length < 22; ++length) EXPECT_EQ(orientation(little.substr(0, length)), 1) << length;
  EXPECT_EQ(orientation("II*" + std::string("\0\377\377\377\377", 5)), 1);
}

TEST(Exif, HoldsAShortOrALong) {
  const auto orientation = [](char type, char value) {
    return images::orientation_of("II*" + std::string("\0\10\0\0\0\1\0\22\1", 9) + type + std::string("\0\1\0\0\0", 5) +
                                  value + std::string(3, '\0'));
  };
  EXPECT_EQ(orientation(3, 6), 6);
  EXPECT_EQ(orientation(4, 6), 6);
  EXPECT_EQ(orientation(3, 9), 1) << "there is none beyond 8";
  for (const char type : {0, 1, 2, 11, 77}) EXPECT_EQ(orientation(type, 6), 1) << int{type};
}

TEST(Exif, APartLiesWhereTheTurnedPictureShowsIt) {
  images::Pixels stored{.size = {3, 4}, .channels = 1};
  for (uint8_t i = 0; i < 12; ++i) stored.bytes.push_back(i);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const auto shown = images::turned(stored, orientation);
    const images::Box box{1, 0, {2, 2}};
    const auto part = images::part_of(stored, images::stored_box(box, stored.size, orientation));
    EXPECT_EQ(images::turned(part, orientation).bytes, images::part_of(shown, box).bytes) << orientation;
  }
}

TEST_F(ImageFile, DecodesNothingThatClaimsTooMuch) {
  write_png(file_, 3, 3, 1, 2, 3);
  auto bytes = read_file(file_);
  bytes.replace(16, 8, std::string("\x00\x00\xf0\x00\x00\x00\xf0\x00", 8));  // 61440 x 61440
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(bytes.data()) + 12, 17);
  bytes.replace(29, 4, big_endian(static_cast<uint32_t>(sum)));
  write_file(file_, bytes);
  EXPECT_THAT(message_of<UserError>([&] { read_size(file_); }), HasSubstr("claims 61440 x 61440 pixels"));
  write_jpeg(file_, 16, 16, {1});
  bytes = read_file(file_);
  const auto frame = bytes.find("\xff\xc0");
  bytes.replace(frame + 5, 4, "\xff\xff\xff\xff");
  write_file(file_, bytes);
  EXPECT_THAT(problem(), HasSubstr("is a damaged JPEG"));  // more than libjpeg's own limit
}

TEST_F(ImageFile, CountsAJpegAsItIsDecoded) {
  write_jpeg(file_, 640, 480, {77});
  const images::Reading strict{.most_pixels = 100'000}, halving{.most_pixels = 100'000, .least_side = 200};
  const auto refused = HasSubstr("claims 640 x 480 pixels, at most 100000 are decoded; dataset.max_pixels allows more");
  EXPECT_THAT(message_of<UserError>([&] { decode(file_, 1, strict); }), refused);
  EXPECT_THAT(message_of<UserError>([&] { images::check_file(file_, strict); }), refused);
  EXPECT_NO_THROW(images::check_file(file_, halving));
  const auto whole = decode(file_, 1, halving);
  EXPECT_EQ(whole.size.width, 320);
  EXPECT_THAT(whole.bytes, Each(77));
  const auto part = decode(file_, 1, strict, [](const images::Size&) { return images::Cut{{0, 0, {200, 300}}, 0}; });
  EXPECT_EQ(part.size.width, 300);
}

TEST_F(ImageFile, WaitsForNoPipe) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT(problem(), HasSubstr("/picture: is a named pipe, expected a file"));
}

TEST_F(ImageFile, DecodesAllWhereAsked) {
  write_png(file_, 30, 30, 1, 2, 3);
  auto bytes = read_file(file_);
  bytes[bytes.size() - 30] ^= 1;
  write_file(file_, bytes);
  EXPECT_NO_THROW(images::check_file(file_));
  EXPECT_THAT(message_of<UserError>([&] { images::check_file(file_, {}, /*decode_all=*/true); }),
              HasSubstr("is a damaged PNG"));
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
        const auto pixels = decode(file_, 3);
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

TEST(ResizedSquare, OutlivesThePixels) {
  for (const int64_t channels : {1, 3}) {
    images::Pixels pixels{.size = {2, 2}, .channels = channels};
    pixels.bytes.assign(static_cast<size_t>(4 * channels), 7);
    const auto square = images::resized_square(pixels, 2, 2);
    pixels.bytes.assign(pixels.bytes.size(), 9);
    EXPECT_TRUE(square.eq(7).all().item<bool>()) << channels;
  }
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
