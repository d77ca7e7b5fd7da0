// SPDX-License-Identifier: MIT
#include "idx_file.h"

#include "idx_writer.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::test {
namespace {

using idx::IdxKind;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class IdxFile : public ::testing::Test {
 protected:
  std::string problem(const std::filesystem::path& path, IdxKind kind) {
    return message_of<UserError>([&] { idx::read_idx(path, kind); });
  }

  // What is said of these bytes, raw and packed.
  void expect_problem(const std::string& bytes, IdxKind kind, const std::string& text) {
    const auto raw = write_file(folder_ / "raw", bytes);
    const auto packed = write_packed(folder_ / "packed", bytes);
    EXPECT_THAT(problem(raw, kind), AllOf(StartsWith(raw.string() + ": "), HasSubstr(text)));
    EXPECT_THAT(problem(packed, kind), AllOf(StartsWith(packed.string() + ": "), HasSubstr(text)));
  }

  TestFolder folder_;
};

TEST_F(IdxFile, ReadsRawAndPackedFilesAlike) {
  for (const auto& path :
       {write_file(folder_ / "raw.gz", image_file(5)), write_packed(folder_ / "packed", image_file(5))}) {
    const auto images = idx::read_idx(path, IdxKind::kImages);
    EXPECT_EQ(images.shape, (std::vector<int64_t>{5, 4, 3}));
    EXPECT_EQ(images.bytes.get()[0], 0);
    EXPECT_EQ(images.bytes.get()[59], 4 + 11);
  }
  const auto labels = idx::read_idx(write_file(folder_ / "labels", label_file(12)), IdxKind::kLabels);
  EXPECT_EQ(labels.count(), 12);
  EXPECT_EQ(labels.bytes.get()[11], 1);
}

TEST_F(IdxFile, SaysWhenImagesAndLabelsAreSwapped) {
  expect_problem(label_file(5), IdxKind::kImages,
                 "magic number 0x00000801, expected 0x00000803 for images: are the files");
  expect_problem(image_file(5), IdxKind::kLabels,
                 "magic number 0x00000803, expected 0x00000801 for labels: are the files");
}

TEST_F(IdxFile, NamesAWrongMagicNumber) {
  expect_problem(idx_header({0xDEADBEEF, 5, 4, 3}), IdxKind::kImages, "magic number 0xdeadbeef, expected 0x00000803");
  expect_problem("<html>Please log in</html>", IdxKind::kLabels, "looks like a web page");
}

TEST_F(IdxFile, NamesATruncatedFile) {
  auto bytes = image_file(5);
  bytes.pop_back();
  expect_problem(bytes, IdxKind::kImages,
                 "claims 5 images of 4 x 3, which is 76 bytes, but the file holds 75: it is truncated");
  expect_problem(idx_header({kImages, 5}), IdxKind::kImages, "holds 8 bytes, expected a header of 16");
}

TEST_F(IdxFile, NamesAnEmptyFile) {
  expect_problem("", IdxKind::kImages, "holds 0 bytes, expected a header of 16: the file is empty");
  expect_problem(idx_header({kImages, 0, 28, 28}), IdxKind::kImages, "says that it holds no images");
  expect_problem(idx_header({kLabels, 0}), IdxKind::kLabels, "says that it holds no labels");
}

TEST_F(IdxFile, NamesAFileThatGoesOn) {
  expect_problem(label_file(5) + "x", IdxKind::kLabels, "there is more than the header says");
}

TEST_F(IdxFile, BelievesNoHeaderThatTheFileCannotHold) {
  expect_problem(idx_header({kImages, 0xFFFFFFFF, 28, 28}) + "abc", IdxKind::kImages,
                 "its header claims 4294967295 images");
  expect_problem(idx_header({kImages, 1'000'000, 28, 28}) + "abc", IdxKind::kImages, "it is truncated");
  expect_problem(idx_header({kImages, 1, 0xFFFFFFFF, 0xFFFFFFFF}), IdxKind::kImages,
                 "images of 4294967295 x 4294967295");
  expect_problem(idx_header({kImages, 1, 0, 28}), IdxKind::kImages, "images of 0 x 28");
}

TEST_F(IdxFile, StopsUnpackingWhereTheHeaderEnds) {
  const auto bomb = write_packed(folder_ / "bomb", label_file(5) + std::string(64 << 20, '\0'));
  EXPECT_LT(std::filesystem::file_size(bomb), 100'000);
  EXPECT_THAT(problem(bomb, IdxKind::kLabels), HasSubstr("there is more than the header says"));
}

TEST_F(IdxFile, NamesDamagedPacking) {
  auto labels = idx_header({kLabels, 50'000});
  for (uint32_t n = 0; n < 50'000; ++n) labels += static_cast<char>((n * n >> 3) % 10);
  auto bytes = read_file(write_packed(folder_ / "whole", labels));
  const auto cut = write_file(folder_ / "cut", bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(problem(cut, IdxKind::kLabels), HasSubstr("it is truncated"));
  const auto no_checksum = write_file(folder_ / "no_checksum", bytes.substr(0, bytes.size() - 8));
  EXPECT_THAT(problem(no_checksum, IdxKind::kLabels), HasSubstr("the end of the packed file is missing"));
  bytes[bytes.size() - 6] ^= 1;  // the check sum
  const auto damaged = write_file(folder_ / "damaged", bytes);
  EXPECT_THAT(problem(damaged, IdxKind::kLabels), HasSubstr("its gzip data are damaged"));
}

TEST_F(IdxFile, NamesWhatIsNoFile) {
  EXPECT_THAT(problem(folder_ / "none", IdxKind::kLabels), HasSubstr("is not a file"));
  EXPECT_THAT(problem(folder_.path(), IdxKind::kLabels), HasSubstr("is not a file"));
}

}  // namespace
}  // namespace ddprun::test
