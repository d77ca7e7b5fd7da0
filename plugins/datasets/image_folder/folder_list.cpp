// SPDX-License-Identifier: MIT
#include "folder_list.h"

#include <ddprun/error.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <system_error>
#include <utility>

namespace ddprun::images {
namespace {

using Path = std::filesystem::path;

[[noreturn]] void refuse(const Path& path, const std::string& flaw) { throw UserError(path.string() + ": " + flaw); }

// Returns the names of the entries in their order, without hidden ones.
template <class Keep>
std::vector<std::string> names_in(const Path& folder, Keep keep) {
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    auto name = at->path().filename().string();
    if (!name.starts_with('.') && keep(*at, name)) names.push_back(std::move(name));
  }
  if (error) refuse(folder, "cannot be listed: " + error.message());
  std::ranges::sort(names);
  return names;
}

bool is_folder(const Path& path) {
  std::error_code ignored;  // what cannot be read does not count as a folder
  return std::filesystem::is_directory(path, ignored);
}

constexpr auto kEndings = ".png, .jpg, .jpeg or .webp";

bool is_picture(const std::string& name) {
  auto ending = name.substr(std::min(name.rfind('.'), name.size()));
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg" || ending == ".webp";
}

std::vector<std::string> classes_of(const Path& folder) {
  auto names = names_in(folder, [](const std::filesystem::directory_entry& entry, const std::string&) {
    std::error_code ignored;  // what cannot be read does not count as a folder
    return entry.is_directory(ignored);
  });
  if (names.empty())
    refuse(folder, std::string("has no class folders, expected <class>/<picture> ending in ") + kEndings);
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
    const auto place = folder / classes[label];
    const auto pictures = names_in(
        place, [](const std::filesystem::directory_entry&, const std::string& name) { return is_picture(name); });
    if (pictures.empty()) refuse(place, std::string("has no picture (") + kEndings + ")");
    for (const auto& name : pictures) samples.push_back({(place / name).string(), static_cast<int64_t>(label)});
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
