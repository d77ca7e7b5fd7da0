// SPDX-License-Identifier: MIT
#include "cli/found_data.h"

#include "base/nearest_path.h"
#include "picture_files.h"
#include "submit/submission.h"

#include <ddprun/error.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;

constexpr size_t kLookedAt = 200;  // pictures, for their size
constexpr auto kExpected =
    "; expected pictures, in FOLDER/<class>/<picture> or FOLDER/train/<class>/<picture>, a text, or a table, a .csv, "
    ".tsv or .parquet file, named itself: ddprun init FILE; `ddprun docs data` says how to bring other data";

Paths files_in(const fs::path& place) {
  std::error_code error;
  if (!fs::is_directory(place, error)) return {place};
  Paths found;
  fs::recursive_directory_iterator at(place, fs::directory_options::follow_directory_symlink, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const bool is_folder = at->is_directory(ignored), hidden = is_litter(at->path().filename().string());
    if (is_folder && (hidden || at.depth() >= 4)) at.disable_recursion_pending();
    if (!is_folder && !hidden) found.push_back(at->path());
  }
  if (error) throw UserError(place.string() + ": cannot be listed: " + error.message());
  std::ranges::sort(found);
  return found;
}

// Returns those that are called so.
Paths called(const Paths& files, bool (*is_called)(const fs::path& file)) {
  Paths found;
  std::ranges::copy_if(files, std::back_inserter(found), is_called);
  return found;
}

bool is_text_file(const fs::path& file) {
  std::error_code error;
  const auto ending = ending_of(file.filename().string());
  return (ending == ".txt" || ending == ".text" || ending == ".md") && fs::is_regular_file(file, error);
}

bool is_table_file(const fs::path& file) { return is_table_name(file.filename().string()); }

// A list of pictures begins with "file,label".
bool is_list(const fs::path& file) {
  std::error_code error;
  std::string line;
  if (!fs::is_regular_file(file, error)) return false;  // to read a pipe would be to wait
  std::ifstream stream(file);
  std::getline(stream, line);
  std::ranges::transform(line, line.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return line.substr(line.starts_with("\xEF\xBB\xBF") ? 3 : 0).starts_with("file,label");
}

int64_t number_at(const std::string& bytes, size_t at, size_t count) {
  int64_t number = 0;
  for (size_t i = 0; i < count; ++i) number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

bool read(std::ifstream& stream, std::string& bytes, size_t count) {
  bytes.resize(count);
  return static_cast<bool>(stream.read(bytes.data(), static_cast<std::streamsize>(count)));
}

// Follows a JPEG's segments to its frame header: FF C0 to FF CF, without C4, C8 and CC (ITU T.81, B.1.1.3).
int64_t jpeg_side(std::ifstream& stream) {
  stream.seekg(2);
  for (std::string bytes; read(stream, bytes, 4) && bytes[0] == '\xFF';) {
    const auto marker = number_at(bytes, 1, 1), length = number_at(bytes, 2, 2);
    const bool frame = marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (frame) return read(stream, bytes, 5) ? std::min(number_at(bytes, 1, 2), number_at(bytes, 3, 2)) : 0;
    stream.seekg(length - 2, std::ios::cur);
  }
  return 0;
}

// Returns the shorter side of a PNG or JPEG picture, from its header; 0 for another file.
int64_t shorter_side(const fs::path& picture) {
  std::ifstream stream(picture, std::ios::binary);
  std::string head;
  constexpr size_t kHead = 24;  // of a PNG: signature, length and type of the first chunk, width, height
  if (!read(stream, head, kHead)) return 0;
  if (head.starts_with("\x89PNG\r\n\x1a\n")) return std::min(number_at(head, 16, 4), number_at(head, 20, 4));
  return head.starts_with("\xFF\xD8") ? jpeg_side(stream) : 0;
}

std::optional<int64_t> median_side(const Paths& pictures) {
  std::vector<int64_t> sides;
  for (size_t i = 0; i < pictures.size(); i += std::max<size_t>(1, pictures.size() / kLookedAt))
    if (const auto side = shorter_side(pictures[i]); side > 0) sides.push_back(side);
  if (sides.empty()) return std::nullopt;
  std::ranges::sort(sides);
  return sides[sides.size() / 2];
}

[[noreturn]] void refuse(const fs::path& place, const Paths& files) {
  const auto where = place.string() + ": ";
  if (files.empty()) throw UserError(where + "there are no files" + kExpected);
  if (const auto tables = called(files, is_table_file); !tables.empty())
    throw UserError(where + "there is a table: name it itself: ddprun init " + shell_word(tables.front().string()));
  throw UserError(where + "there is neither a picture nor a text, but files such as " +
                  files.front().lexically_relative(place).string() + kExpected);
}

}  // namespace

FoundData find_data(const fs::path& place) {
  std::error_code error;
  if (!fs::exists(place, error))
    throw UserError(place.string() + ": there is no such folder or file" + did_you_mean(place));
  auto path = fs::absolute(place).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const auto files = files_in(path);
  FoundData found{.folder = path};
  const auto pictures = called(files, is_picture);
  const auto is_beside = [&](const fs::path& file) { return file == path || file.parent_path() == path; };
  if (pictures.empty() || !fs::is_directory(path, error)) {
    std::ranges::copy_if(called(files, is_text_file), std::back_inserter(found.texts), is_beside);
    if (found.texts.empty()) refuse(path, files);
    return found;
  }
  const auto lists = called(called(files, is_table_file), is_list);
  if (const auto list = std::ranges::find_if(lists, is_beside); list != lists.end()) found.list = *list;
  found.side = median_side(pictures);
  return found;
}

}  // namespace ddprun
