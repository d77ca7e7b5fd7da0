// SPDX-License-Identifier: MIT
// Which files are pictures, tables and litter, and which folders are splits: the dataset image_folder reads by these
// rules, and `ddprun init` looks by them.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

// Returns how a name ends, in lower case: ".jpg"; empty if it has no ending.
std::string ending_of(std::string_view name);

// Returns whether a name promises a picture, be it of a kind that is read or not (.tif).
bool is_picture_name(std::string_view name);

// How the names of tables end that `ddprun init` reads.
inline const std::initializer_list<std::string_view> kTableEndings{".csv", ".tsv", ".parquet"};

// Returns whether a name promises such a table.
bool is_table_name(std::string_view name);

// Returns whether systems and programs leave files or folders of this name beside pictures: .DS_Store, Thumbs.db,
// __MACOSX, and all that begins with a dot.
bool is_litter(std::string_view name);

// Returns "train", "val" or "test" for the usual names of splits in any case, such as Valid and testing.
std::optional<std::string> split_called(std::string_view name);

// Returns the first split that a word of the name is called: "val" for images_valid2017.
std::optional<std::string> split_mentioned(std::string_view name);

// What a file is by its first 64 bytes.
enum class PictureKind { kPng, kJpeg, kWebP, kOther, kNone };
struct FileKind {
  PictureKind kind = PictureKind::kNone;  // kOther: a picture of a kind that is not read
  const char* name = "none of these";     // "a GIF", "a text file"
};
FileKind file_kind(std::string_view start);

// Returns whether to take a file for a picture: one that is called so, whatever it is, and one of another name that is
// a picture by its first bytes, or cannot be opened. Waits for no pipe.
bool is_picture(const std::filesystem::path& file);

inline constexpr auto kReadPictures = "PNG, JPEG or WebP";

}  // namespace ddprun
