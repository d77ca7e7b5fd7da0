// SPDX-License-Identifier: MIT
#include "picture_files.h"

#include <ddprun/found_files.h>

#include <algorithm>

namespace ddprun {

namespace fs = std::filesystem;

bool FoundFiles::has(const fs::path& below) const {
  std::error_code error;
  return fs::exists(folder / below, error);
}

FilePaths FoundFiles::ending_in(std::initializer_list<std::string_view> endings) const {
  FilePaths found;
  std::ranges::copy_if(files, std::back_inserter(found), [&](const fs::path& file) {
    return std::ranges::find(endings, ending_of(file.filename().string())) != endings.end();
  });
  return found;
}

std::string FoundFiles::split_of(const fs::path& file) const {
  return split_mentioned(file.lexically_relative(folder).replace_extension().string()).value_or("train");
}

std::map<std::string, FilePaths> FoundFiles::by_split(const FilePaths& some) const {
  std::map<std::string, FilePaths> splits;
  for (const auto& file : some) splits[split_of(file)].push_back(file);
  return splits;
}

std::string FoundFiles::name_of(const fs::path& file) const { return file.lexically_relative(folder).string(); }

std::string FoundFiles::counted(const FilePaths& some, const std::string& what) const {
  return std::to_string(some.size()) + " " + what + (some.size() == 1 ? "" : "s") + ", such as " +
         name_of(some.front());
}

Recognized recognized_by_names(const FoundFiles& found, const std::string& name) {
  Recognized recognized{.by = Recognized::By::kNames, .what = name};
  recognized.options.set("root", path_value(found.folder));
  recognized.options.set("download", Value::scalar("false"));
  return recognized;
}

Value path_value(const fs::path& path) { return Value::scalar(path.string(), {}, /*quoted=*/true); }

Value path_values(const FilePaths& paths) {
  auto list = Value::list();
  for (const auto& path : paths) list.items().push_back(path_value(path));
  return list;
}

}  // namespace ddprun
