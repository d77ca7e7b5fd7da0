// SPDX-License-Identifier: MIT
// What is no picture, what is damaged and what claims too much. Pixels, parts and orientations are compared with
// Pillow's in tests/differential.
#include "image_file.h"

#include "picture_folder.h"
#include "resize.h"
#include "support/written_files.h"

#include <ATen/ATen.h>

#include <sys/stat.h>

#include <algorithm>

namespace ddprun::test {
namespace {

using images::decode;
using images::read_size;

class ImageFile : public FolderTest {
 protected:
  // What decoding, or else checking, says of these bytes.
  std::string problem(const std::string& bytes) const {
    write(file_, bytes);
    return error_of([&] { decode(file_, 3); });
  }
  std::string found_by_check(const images::Reading& how = {}, bool decode_all = false) const {
    return error_of([&] { images::check_file(file_, how, decode_all); });
  }
  std::string png(unsigned width, unsigned height) const {
    write_png(file_, width, height, 1, 2, 3);
    return read(file_);
  }
  std::string jpeg(unsigned width, unsigned height, const std::vector<unsigned char>& pixel) const {
    write_jpeg(file_, width, height, pixel);
    return read(file_);
  }

  const std::filesystem::path file_ = folder_ / "picture";
};

TEST_F(ImageFile, HalvesALargeJpegAsFarAsTheCutAllows) {
  jpeg(640, 480, {77});
  const auto size = [&](int64_t least) {
    const auto found =
        decode(file_, 1, {}, [&](const images::Size&) { return images::Cut{{40, 80, {400, 480}}, least}; }).size;
    return std::pair(found.height, found.width);
  };
  for (const auto& [least, height, width] : {std::tuple{0, 400, 480}, {201, 400, 480}, {200, 200, 240}, {1, 50, 60}})
    EXPECT_EQ(size(least), std::pair(int64_t{height}, int64_t{width})) << least;
}

TEST_F(ImageFile, NamesWhatIsNoPicture) {
  const auto unreadable = [&] { return error_of([&] { decode(file_, 3); }); };
  EXPECT_TRUE(says(unreadable(), "/picture: cannot be opened: No such file"));
  expect_refused([&](const std::string& bytes) { return problem(bytes); },
                 {{"", "is empty"},
                  {"GIF89a and so on", "/picture: is a GIF, expected PNG, JPEG or WebP"},
                  {"<!DOCTYPE html>\n", "is a text file, expected PNG"},
                  {std::string("II*\0\1", 5), "is a TIFF, expected PNG"},
                  {std::string("\1\2\0\3", 4), "is none of these, expected PNG"}});
  std::filesystem::remove(file_);
  std::filesystem::create_directory(file_);
  EXPECT_TRUE(says(unreadable(), "is a folder, expected a file"));
  std::filesystem::remove(file_);
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_TRUE(says(unreadable(), "is a named pipe, expected a file"));
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
  const auto whole = png(3, 3);
  const auto before = most_memory();
  for (const auto* chunk : {"tEXt", "zTXt", "iTXt", "eXIf", "iCCP", "sPLT", "hIST", "prVt"}) {
    const auto text = problem(whole.substr(0, kAfterSize) + "\x7f\xff\xff\xff" + chunk + whole.substr(kAfterSize));
    EXPECT_TRUE(says(text, "is a damaged PNG")) << chunk;
    EXPECT_LT(most_memory() - before, 256 << 10) << chunk << " of 2 GiB";
  }
}

TEST_F(ImageFile, NamesADamagedPictureWhoseSizeIsStillRead) {
  std::vector<unsigned char> noise(3 * 64 * 64);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<unsigned char>(i * i >> 3);
  write_png(file_, 64, 64, noise);
  const auto grainy = read(file_), plain = jpeg(640, 640, {1, 2, 3});
  for (const auto& [bytes, width, words] :
       {std::tuple{grainy.substr(0, grainy.size() / 2), 64, "is a damaged PNG"},
        {plain.substr(0, plain.size() - 200), 640, "is a damaged JPEG (Premature end of JPEG file)"}}) {
    EXPECT_TRUE(says(problem(bytes), words));
    EXPECT_TRUE(says(found_by_check(), words));
    EXPECT_EQ(read_size(file_).width, width);
  }
  write(file_, plain + "and more");  // after its end
  EXPECT_EQ(found_by_check(), "");
  auto flipped = png(30, 30);
  flipped[flipped.size() - 30] ^= 1;
  write(file_, flipped);
  EXPECT_EQ(found_by_check(), "");
  EXPECT_TRUE(says(found_by_check({}, /*decode_all=*/true), "is a damaged PNG"));
}

TEST_F(ImageFile, DecodesNothingThatClaimsTooMuch) {
  auto bytes = png(3, 3);
  bytes.replace(16, 8, std::string("\x00\x00\xf0\x00\x00\x00\xf0\x00", 8));  // 61440 x 61440
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(bytes.data()) + 12, 17);
  bytes.replace(29, 4, big_endian(static_cast<uint32_t>(sum)));
  EXPECT_TRUE(says(problem(bytes), "claims 61440 x 61440 pixels"));
  bytes = jpeg(16, 16, {1});
  bytes.replace(bytes.find("\xff\xc0") + 5, 4, "\xff\xff\xff\xff");
  EXPECT_TRUE(says(problem(bytes), "is a damaged JPEG"));  // more than libjpeg's own limit
}

TEST_F(ImageFile, CountsAJpegAsItIsDecoded) {
  jpeg(640, 480, {77});
  const images::Reading strict{.most_pixels = 100'000}, halving{.most_pixels = 100'000, .least_side = 200};
  const auto refused = "claims 640 x 480 pixels, at most 100000 are decoded; dataset.max_pixels allows more";
  EXPECT_TRUE(says(error_of([&] { decode(file_, 1, strict); }), refused));
  EXPECT_TRUE(says(found_by_check(strict), refused));
  EXPECT_EQ(found_by_check(halving), "");
  const auto whole = decode(file_, 1, halving);
  EXPECT_EQ(whole.size.width, 320);
  EXPECT_EQ(std::ranges::count(whole.bytes, 77), std::ssize(whole.bytes));
  const auto part = decode(file_, 1, strict, [](const images::Size&) { return images::Cut{{0, 0, {200, 300}}, 0}; });
  EXPECT_EQ(part.size.width, 300);
}

TEST_F(ImageFile, NoChangedByteEndsTheProgram) {
  for (const auto& good : {png(16, 12), jpeg(16, 12, {5, 200, 90})}) {
    for (size_t i = 0; i < good.size(); i += 3) {
      auto bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ 0x55);
      if (!problem(bytes).empty()) continue;
      const auto pixels = decode(file_, 3);
      EXPECT_EQ(static_cast<int64_t>(pixels.bytes.size()), pixels.size.height * pixels.size.width * 3);
    }
  }
}

TEST(ResizedSquare, CutsTheMiddleAndOutlivesThePixels) {
  images::Pixels pixels{.size = {2, 6}, .channels = 1, .bytes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};
  EXPECT_TRUE(images::resized_square(pixels, 2, 2).equal(at::tensor({2, 3, 8, 9}, at::kByte).view({1, 2, 2})));
  for (const int64_t channels : {1, 3}) {
    images::Pixels own{.size = {2, 2}, .channels = channels};
    own.bytes.assign(static_cast<size_t>(4 * channels), 7);
    const auto square = images::resized_square(own, 2, 2);
    own.bytes.assign(own.bytes.size(), 9);
    EXPECT_TRUE(square.eq(7).all().item<bool>()) << channels;
  }
}

TEST(ResizedSquare, KeepsAColourAtAnySizeAndAveragesWhereItShrinks) {
  for (const auto& size : {images::Size{1, 1}, {1, 50'000}, {3'000, 2}, {300, 200}, {20, 31}}) {
    images::Pixels pixels{.size = size, .channels = 3};
    for (int64_t i = 0; i < size.height * size.width; ++i) pixels.bytes.insert(pixels.bytes.end(), {10, 20, 200});
    const auto colour = at::tensor({10, 20, 200}, at::kByte).view({3, 1, 1}).expand({3, 32, 32});
    EXPECT_TRUE(images::resized_square(pixels, 40, 32).equal(colour)) << size.height << " x " << size.width;
  }
  images::Pixels board{.size = {64, 64}, .channels = 1};
  for (int i = 0; i < 64 * 64; ++i) board.bytes.push_back((i + i / 64) % 2 ? 255 : 0);
  const auto square = images::resized_square(board, 8, 8);
  EXPECT_GT(square.min().item<int64_t>(), 118);
  EXPECT_LT(square.max().item<int64_t>(), 138);
}

}  // namespace
}  // namespace ddprun::test
