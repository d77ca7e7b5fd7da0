// SPDX-License-Identifier: MIT
#include "picture_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <map>
#include <set>
#include <system_error>

namespace ddprun {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

constexpr bool is_blank(unsigned char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

bool is_text(std::string_view start) {
  return std::ranges::all_of(start, [](unsigned char c) { return c >= ' ' || is_blank(c); });
}

// A netpbm file has P1 to P6, a blank, and a number or a comment.
bool is_pnm(std::string_view start) {
  return start.size() > 3 && start[0] == 'P' && start[1] >= '1' && start[1] <= '6' &&
         is_blank(static_cast<unsigned char>(start[2]));
}

// A bitmap's header says how long it is.
bool is_bmp(std::string_view start) {
  constexpr std::array<unsigned char, 7> kSizes{12, 40, 52, 56, 64, 108, 124};
  return start.starts_with("BM") && start.size() > 17 &&
         std::ranges::find(kSizes, static_cast<unsigned char>(start[14])) != kSizes.end() &&
         start.substr(15, 3) == std::string_view("\0\0\0", 3);
}

}  // namespace

std::string ending_of(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == name.npos || dot == 0 || dot + 1 == name.size() ? "" : lower(name.substr(dot));
}

bool is_picture_name(std::string_view name) {
  static const std::set<std::string> kEndings{".png",  ".apng", ".jpg",  ".jpeg", ".jpe",  ".jfif", ".webp",
                                              ".bmp",  ".dib",  ".ppm",  ".pgm",  ".pbm",  ".pnm",  ".tif",
                                              ".tiff", ".gif",  ".heic", ".heif", ".avif", ".jp2",  ".jxl"};
  return kEndings.contains(ending_of(name));
}

bool is_table_name(std::string_view name) {
  return std::ranges::find(kTableEndings, ending_of(name)) != kTableEndings.end();
}

bool is_litter(std::string_view name) {
  static const std::set<std::string> kNames{
      "thumbs.db", "ehthumbs.db", "desktop.ini",  "__macosx",    "@eadir",
      "icon\r",    "lost+found",  "$recycle.bin", "__pycache__", "system volume information"};
  return name.starts_with('.') || kNames.contains(lower(name));
}

std::optional<std::string> split_called(std::string_view name) {
  static const std::map<std::string, std::string> kNames{
      {"train", "train"},    {"training", "train"}, {"trainset", "train"}, {"val", "val"},      {"valid", "val"},
      {"validation", "val"}, {"validate", "val"},   {"dev", "val"},        {"eval", "val"},     {"evaluation", "val"},
      {"valset", "val"},     {"devset", "val"},     {"test", "test"},      {"testing", "test"}, {"testset", "test"}};
  const auto found = kNames.find(lower(name));
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> split_mentioned(std::string_view name) {
  std::string word;
  for (const char c : std::string(name) + " ") {
    if (std::isalpha(static_cast<unsigned char>(c))) {
      word += c;
    } else {
      if (auto split = split_called(word)) return split;
      word.clear();
    }
  }
  return std::nullopt;
}

FileKind file_kind(std::string_view start) {
  struct Known {
    size_t at;
    std::string_view bytes;
    FileKind kind;
  };
  using enum PictureKind;
  static constexpr std::array kKnown{Known{0, "\x89PNG\r\n\x1a\n", {kPng, "a PNG"}},
                                     Known{0, "\xff\xd8\xff", {kJpeg, "a JPEG"}},
                                     Known{0, "GIF8", {kOther, "a GIF"}},
                                     Known{0, {"II*\0", 4}, {kOther, "a TIFF"}},
                                     Known{0, {"MM\0*", 4}, {kOther, "a TIFF"}},
                                     Known{0, {"II+\0", 4}, {kOther, "a BigTIFF"}},
                                     Known{0, {"MM\0+", 4}, {kOther, "a BigTIFF"}},
                                     Known{4, "ftyphei", {kOther, "a HEIF"}},
                                     Known{4, "ftyphev", {kOther, "a HEIF"}},
                                     Known{4, "ftypmif1", {kOther, "a HEIF"}},
                                     Known{4, "ftypavif", {kOther, "an AVIF"}},
                                     Known{4, "jP  \r\n\x87\n", {kOther, "a JPEG 2000"}},
                                     Known{4, "JXL \r\n\x87\n", {kOther, "a JPEG XL"}},
                                     Known{0, "%PDF", {kNone, "a PDF"}},
                                     Known{0, "PK\3\4", {kNone, "a zip archive"}}};
  for (const auto& known : kKnown) {
    if (start.size() > known.at && start.substr(known.at).starts_with(known.bytes)) return known.kind;
  }
  if (start.starts_with("RIFF") && start.size() >= 12 && start.substr(8).starts_with("WEBP")) return {kWebP, "a WebP"};
  if (is_bmp(start)) return {kOther, "a BMP"};
  if (is_pnm(start)) return {kOther, "a PNM"};
  return {kNone, is_text(start) ? "a text file" : "none of these"};
}

bool is_picture(const std::filesystem::path& file) {
  if (is_picture_name(file.filename().string())) return true;
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return false;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return true;
  std::array<char, 64> start{};
  stream.read(start.data(), start.size());
  return file_kind({start.data(), static_cast<size_t>(stream.gcount())}).kind != PictureKind::kNone;
}

}  // namespace ddprun
