// SPDX-License-Identifier: MIT
#include "recognize.h"

#include "picture_files.h"
#include "picture_size.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

namespace ddprun::images {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestSize = 224;  // of ImageNet's networks
constexpr int64_t kSmallSize = 64;     // larger ones become multiples of 32
constexpr size_t kLookedAt = 200;      // pictures, for their size
constexpr const char* kShard = ".tar";

// Files of other endings are pictures by their first bytes, if they are.
bool is_called_otherwise(const fs::path& file) {
  static const std::set<std::string> kEndings{".npy",  ".safetensors", ".tar", ".bin", ".txt",
                                              ".text", ".md",          ".csv", ".json"};
  return kEndings.contains(ending_of(file.filename().string()));
}

bool is_list_of_pictures(const fs::path& csv) {
  std::error_code error;
  if (!fs::is_regular_file(csv, error)) return false;  // to read a pipe would be to wait
  std::string line;
  std::ifstream stream(csv);
  std::getline(stream, line);
  if (line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  std::ranges::transform(line, line.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return line.starts_with("file,label");
}

FilePaths spread(const FilePaths& files) {
  FilePaths some;
  const auto step = std::max<size_t>(1, files.size() / kLookedAt);
  for (size_t i = 0; i < files.size(); i += step) some.push_back(files[i]);
  return some;
}

// Sets the side of the squares that the model gets.
void choose_size(Recognized& recognized, std::optional<int64_t> median) {
  const auto side = median.value_or(kLargestSize);
  const auto size = side <= kSmallSize ? side : std::min(kLargestSize, side / 32 * 32);
  recognized.options.set("size", Value::scalar(std::to_string(size)));
  recognized.remarks["size"] =
      "side of the square that the model sees; " + (median ? "the pictures' shorter side is " + std::to_string(side)
                                                           : std::string("make it smaller for small pictures"));
}

// Returns train-00000*.tar for train-000000.tar and its like; nothing if no pattern names these files alone.
std::optional<fs::path> pattern_of(const FilePaths& files, const FilePaths& all) {
  if (files.size() == 1) return files.front();
  const auto first = files.front().string(), last = files.back().string();
  const auto common = first.substr(0, static_cast<size_t>(std::ranges::mismatch(first, last).in1 - first.begin()));
  const fs::path pattern = common + "*" + kShard;
  const auto named = std::ranges::count_if(all, [&](const fs::path& file) {
    return file.parent_path() == pattern.parent_path() && file.string().starts_with(common);
  });
  return named == std::ssize(files) ? std::optional(pattern) : std::nullopt;
}

}  // namespace

std::optional<Recognized> recognize_pictures(const FoundFiles& found) {
  FilePaths pictures;
  std::ranges::copy_if(found.files, std::back_inserter(pictures),
                       [](const fs::path& file) { return !is_called_otherwise(file) && is_picture(file); });
  if (pictures.empty()) return std::nullopt;
  Recognized recognized{.what = found.counted(pictures, "picture")};
  recognized.options.set("root", path_value(found.folder));
  const auto tables = found.ending_in({".csv"});
  const auto csv = std::ranges::find_if(
      tables, [&](const fs::path& file) { return file.parent_path() == found.folder && is_list_of_pictures(file); });
  if (csv != tables.end()) {
    recognized.options.set("csv", path_value(*csv));
  } else if (std::ranges::all_of(pictures, [&](const auto& file) { return file.parent_path() == found.folder; })) {
    recognized.problem =
        "they lie in no class folders; expected FOLDER/<class>/<picture>, FOLDER/train/<class>/<picture> with val and "
        "test likewise, or a list labels.csv beside the pictures, with the header file,label";
  }
  choose_size(recognized, median_shorter_side(spread(pictures)));
  return recognized;
}

std::optional<Recognized> recognize_shards(const FoundFiles& found) {
  const auto shards = found.ending_in({kShard});
  if (shards.empty()) return std::nullopt;
  Recognized recognized{.what = found.counted(shards, "shard")};
  const auto splits = found.by_split(shards);
  if (!splits.contains("train")) {
    recognized.problem = "no file is of train, and " + found.name_of(shards.front()) + " is of " +
                         splits.begin()->first + "; expected names such as train-000000.tar";
    return recognized;
  }
  for (const auto* split : {"train", "val", "test"}) {
    const auto files = splits.find(split);
    if (files == splits.end()) continue;
    const auto pattern = pattern_of(files->second, shards);
    if (pattern)
      recognized.options.set(split, path_value(*pattern));
    else
      recognized.problem = "no pattern names " + found.name_of(files->second.front()) + ", " +
                           found.name_of(files->second.back()) +
                           " and the others of their split alone; expected names such as train-000000.tar and "
                           "val-000000.tar in one folder, or folders train and val";
  }
  choose_size(recognized, std::nullopt);
  return recognized;
}

}  // namespace ddprun::images
