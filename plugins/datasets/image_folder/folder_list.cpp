// SPDX-License-Identifier: MIT
#include "folder_list.h"

#include <ddprun/error.h>

#include <algorithm>
#include <cctype>
#include <system_error>

namespace ddprun::images {
namespace {

using Path = std::filesystem::path;

[[noreturn]] void refuse(const Path& path, const std::string& flaw) { throw UserError(path.string() + ": " + flaw); }

// Returns the entries sorted by name, without hidden ones.
std::vector<Path> entries_of(const Path& folder) {
  std::error_code error;
  std::vector<Path> entries;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!at->path().filename().string().starts_with('.')) entries.push_back(at->path());
  }
  if (error) refuse(folder, "cannot be listed: " + error.message());
  std::ranges::sort(entries);
  return entries;
}

bool is_folder(const Path& path) {
  std::error_code ignored;  // what cannot be read does not count as a folder
  return std::filesystem::is_directory(path, ignored);
}

bool is_picture(const Path& path) {
  auto ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

std::vector<std::string> classes_of(const Path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : entries_of(folder)) {
    if (is_folder(entry)) names.push_back(entry.filename().string());
  }
  if (names.empty()) refuse(folder, "has no class folders, expected <class>/<picture>.png, .jpg or .jpeg");
  return names;
}

void check_classes(const Path& folder, const std::vector<std::string>& found,
                   const std::vector<std::string>& expected) {
  for (const auto& name : found) {
    if (!std::ranges::binary_search(expected, name)) refuse(folder / name, "a class that train does not have");
  }
  for (const auto& name : expected) {
    if (!std::ranges::binary_search(found, name)) refuse(folder, "lacks the class " + name + ", which train has");
  }
}

Samples pictures_of(const Path& folder, const std::vector<std::string>& classes) {
  Samples samples;
  for (size_t label = 0; label < classes.size(); ++label) {
    const auto before = samples.size();
    for (const auto& entry : entries_of(folder / classes[label])) {
      if (is_picture(entry)) samples.push_back({{.file = entry}, static_cast<int64_t>(label)});
    }
    if (samples.size() == before) refuse(folder / classes[label], "has no picture (.png, .jpg or .jpeg)");
  }
  return samples;
}

}  // namespace

SampleList list_folders(const Path& root) {
  if (!is_folder(root)) refuse(root, "is not a folder; name one that has train/<class>/<picture> or <class>/<picture>");
  const bool has_splits = is_folder(root / "train");
  const auto train = has_splits ? root / "train" : root;
  SampleList list{.place = root.string(), .class_names = classes_of(train)};
  list.of(Split::kTrain) = pictures_of(train, list.class_names);
  for (const auto split : {Split::kVal, Split::kTest}) {
    const auto folder = root / split_name(split);
    if (!has_splits || !is_folder(folder)) continue;
    check_classes(folder, classes_of(folder), list.class_names);
    list.of(split) = pictures_of(folder, list.class_names);
  }
  return list;
}

}  // namespace ddprun::images
