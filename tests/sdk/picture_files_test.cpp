// SPDX-License-Identifier: MIT
#include "picture_files.h"

#include "csv_cell.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(PictureFiles, AreKnownByTheirBytes) {
  const auto kind = [](std::string_view bytes) { return file_kind(bytes).kind; };
  EXPECT_EQ(kind("P6\n2 3"), PictureKind::kOther);
  EXPECT_EQ(kind("P7\n"), PictureKind::kNone);
  EXPECT_EQ(kind("BMW is a car and no picture"), PictureKind::kNone);
  EXPECT_EQ(kind(std::string_view("BM12345678901 \0\0\0(\0\0\0xxxx", 20)), PictureKind::kNone);
  EXPECT_EQ(kind(std::string_view("BM123456789012(\0\0\0xxxx", 22)), PictureKind::kOther);
  EXPECT_EQ(kind("GIF89a"), PictureKind::kOther);
}

TEST(CsvCell, IsUtf8WhateverTheNameIs) {
  EXPECT_EQ(csv_cell("H\xf6he"), "H\uFFFDhe");
  EXPECT_EQ(csv_cell("H\u00f6he,m"), "\"H\u00f6he,m\"");
}

}  // namespace
}  // namespace ddprun
