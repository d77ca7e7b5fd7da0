// SPDX-License-Identifier: MIT
#include "name_forms.h"

#include "csv_cell.h"
#include "picture_files.h"
#include "shown_text.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(NameForms, AreAlikeWhereOnlyComputersTellThemApart) {
  for (const auto& [one, other] : std::vector<std::pair<std::string, std::string>>{
           {"cat", "Cat"},
           {"cat", " cat\u00a0"},
           {"ice cream", "ice  cream"},
           {"7", "007"},
           {"cat 7", "\uff23\uff21\uff34\u3000\uff17"},         // full-width
           {"\u0416\u0423\u041a", "\u0436\u0443\u043a"},        // Cyrillic, of another case
           {"\u00fcber", "u\u0308ber"},                         // an accent apart
           {"\u0439\u043e\u0434", "\u0438\u0306\u043e\u0434"},  // the same in Cyrillic
           {"\u304c", "\u304b\u3099"},                          // and in kana
           {"\ud55c", "\u1112\u1161\u11ab"}}) {                 // and in Korean
    EXPECT_TRUE(are_alike(one, other)) << one << " " << other;
    EXPECT_TRUE(find_alike({"x", one, "y", other})) << one << " " << other;
  }
}

TEST(NameForms, DifferWherePeopleTellThemApart) {
  for (const auto& [one, other] :
       std::vector<std::pair<std::string, std::string>>{{"cafe", "caf\u00e9"},
                                                        {"caf\u00e8", "caf\u00e9"},
                                                        {"cafe\u0300", "cafe\u0301"},
                                                        {"caf\u00f1", "cafe\u0301"},
                                                        {"10", "1"},
                                                        {"0", "00a"},
                                                        {"\u732b", "\u72ac"},
                                                        {"\u0436\u0443\u043a", "\u043a\u043e\u0442"}}) {
    EXPECT_FALSE(are_alike(one, other)) << one << " " << other;
    EXPECT_FALSE(find_alike({one, other})) << one << " " << other;
  }
}

TEST(PictureFiles, AreKnownByTheirBytes) {
  const auto kind = [](std::string_view bytes) { return file_kind(bytes).kind; };
  EXPECT_EQ(kind("P6\n2 3"), PictureKind::kPnm);
  EXPECT_EQ(kind("P7\n"), PictureKind::kNone);
  EXPECT_EQ(kind("BMW is a car and no picture"), PictureKind::kNone);
  EXPECT_EQ(kind(std::string_view("BM12345678901 \0\0\0(\0\0\0xxxx", 20)), PictureKind::kNone);
  EXPECT_EQ(kind(std::string_view("BM123456789012(\0\0\0xxxx", 22)), PictureKind::kBmp);
  EXPECT_EQ(kind("GIF89a"), PictureKind::kOther);
}

TEST(CsvCell, IsUtf8WhateverTheNameIs) {
  EXPECT_EQ(csv_cell("H\xf6he"), "H\uFFFDhe");
  EXPECT_EQ(csv_cell("H\u00f6he,m"), "\"H\u00f6he,m\"");
}

}  // namespace
}  // namespace ddprun
