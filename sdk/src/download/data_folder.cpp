// SPDX-License-Identifier: MIT
#include "transfer.h"

#include <ddprun/download.h>
#include <ddprun/error.h>
#include <ddprun/files.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

namespace ddprun {
namespace {

using Path = std::filesystem::path;

std::vector<Path> usual_folders(const std::string& name) {
  std::vector<Path> folders;
  const char* data = std::getenv("DDPRUN_DATA");
  if (data && *data) folders.push_back(Path(data) / name);
  if (const auto cache = cache_folder(); !cache.empty()) folders.push_back(cache / name);
  return folders;
}

Path find_file(const Path& folder, const FileEntry& entry) {
  std::error_code ignored;  // a folder that cannot be read counts as one without files
  auto names = entry.unpacked;
  names.push_back(entry.archive.name);
  for (const auto& name : names) {
    if (std::filesystem::is_regular_file(folder / name, ignored)) return folder / name;
  }
  return {};
}

}  // namespace

DataFolder::DataFolder(const FileTable& table, const Path& root, std::vector<std::string> mirrors, bool may_download)
    : table_(table), mirrors_(std::move(mirrors)), may_download_(may_download) {
  if (root.empty()) {
    folders_ = usual_folders(table.name);
  } else {
    for (const auto& below : table.subfolders) folders_.push_back(root / below);
    folders_.push_back(root);
  }
}

DataFolder read_data_folder(const FileTable& table, const std::string& holds, Options& options) {
  const auto root = options.get<Path>(
      "root", "",
      "folder of " + holds + "; otherwise $DDPRUN_DATA/" + table.name + ", then ~/.cache/ddprun/" + table.name);
  const auto mirrors =
      options.get<std::vector<std::string>>("mirrors", table.mirrors, "addresses to download from, in turn");
  const auto download = options.get<bool>("download", true, "download the files if they are missing");
  return {table, root, mirrors, download};
}

std::optional<FilePaths> DataFolder::find() const {
  for (const auto& folder : folders_) {
    FilePaths paths;
    for (const auto& entry : table_.files) paths.push_back(find_file(folder, entry));
    if (std::ranges::none_of(paths, &Path::empty)) return paths;
  }
  return std::nullopt;
}

FilePaths DataFolder::require() const {
  if (const auto paths = find()) return *paths;
  throw UserError(missing_text("the files are not there", {}));
}

void DataFolder::fetch(const Progress& progress) const {
  if (find()) return;
  if (folders_.empty()) {
    throw UserError(table_.name + ": no folder for the data: set dataset.root, DDPRUN_DATA or HOME");
  }
  if (!may_download_) throw UserError(missing_text("the files are not there, and dataset.download is false", {}));
  const auto& folder = folders_.back();
  make_folder(folder);
  FileLock lock(folder / ".lock");
  lock.lock([&] { progress("another process downloads to " + folder.string(), 0, 0); });
  for (const auto& entry : table_.files) {
    if (!find_file(folder, entry).empty()) continue;
    const auto problems = download(entry.archive, mirrors_, folder, progress);
    if (!find_file(folder, entry).empty()) continue;
    throw UserError(missing_text("cannot download " + entry.archive.name, problems));
  }
}

std::string DataFolder::missing_text(const std::string& reason, const std::vector<std::string>& problems) const {
  std::string text = table_.name + ": " + reason;
  for (const auto& problem : problems) text += "\n  " + problem;
  text += "\nLooked in:";
  for (const auto& folder : folders_) text += "\n  " + folder.string();
  if (!folders_.empty()) text += "\nPut these files into " + folders_.back().string() + ", as they are or unpacked:";
  for (const auto& [file, unpacked] : table_.files) {
    text += "\n  " + file.name + "  " + std::to_string(file.bytes) + " bytes, sha256 " + file.sha256;
    for (const auto& mirror : mirrors_) text += "\n    " + address(mirror, file.name);
  }
  return text + "\nor name a folder that has them: dataset.root=<folder>, or DDPRUN_DATA=<folder that holds " +
         table_.name + "/>";
}

}  // namespace ddprun
