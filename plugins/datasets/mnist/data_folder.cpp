// SPDX-License-Identifier: MIT
#include "data_folder.h"

#include <ddprun/error.h>

#include <cstdlib>
#include <system_error>

#include "download.h"
#include "folder_lock.h"

namespace ddprun::idx {
namespace {

using Path = std::filesystem::path;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Path expand_home(const std::string& path) {
  const auto home = environment("HOME");
  if (path == "~" || path.starts_with("~/")) return Path(home + path.substr(1));
  return path;
}

std::vector<Path> usual_folders(const std::string& name) {
  std::vector<Path> folders;
  const auto data = environment("DDPRUN_DATA"), cache = environment("XDG_CACHE_HOME"), home = environment("HOME");
  if (!data.empty()) folders.push_back(Path(data) / name);
  if (!cache.empty()) {
    folders.push_back(Path(cache) / "ddprun" / name);
  } else if (!home.empty()) {
    folders.push_back(Path(home) / ".cache" / "ddprun" / name);
  }
  return folders;
}

Path find_file(const Path& folder, const std::string& name) {
  std::error_code ignored;  // a folder that cannot be looked at has no files for us
  for (const auto* ending : {"", ".gz"}) {
    if (std::filesystem::is_regular_file(folder / (name + ending), ignored)) return folder / (name + ending);
  }
  return {};
}

void make_folder(const Path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw UserError(folder.string() + ": this folder cannot be made: " + error.message());
}

}  // namespace

DataFolder::DataFolder(const FileTable& table, const std::string& root, std::vector<std::string> mirrors,
                       bool may_download)
    : table_(table), mirrors_(std::move(mirrors)), may_download_(may_download) {
  if (root.empty()) {
    folders_ = usual_folders(table.name);
  } else {
    folders_.push_back(expand_home(root));
  }
}

std::optional<FilePaths> DataFolder::find() const {
  for (const auto& folder : folders_) {
    FilePaths paths;
    bool all = true;
    for (size_t i = 0; i < paths.size(); ++i) {
      paths[i] = find_file(folder, table_.files[i].name);
      all = all && !paths[i].empty();
    }
    if (all) return paths;
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
  const FolderLock lock(folder, [&] { progress("another process downloads to " + folder.string(), 0, 0); });
  for (const auto& file : table_.files) {
    if (!find_file(folder, file.name).empty()) continue;
    const RemoteFile remote{file.name + ".gz", file.archive_bytes, file.archive_sha256, file.content_sha256};
    const auto problems = download(remote, mirrors_, folder, progress);
    if (!find_file(folder, file.name).empty()) continue;
    throw UserError(missing_text("cannot download " + remote.name, problems));
  }
}

std::string DataFolder::missing_text(const std::string& reason, const std::vector<std::string>& problems) const {
  std::string text = table_.name + ": " + reason;
  for (const auto& problem : problems) text += "\n  " + problem;
  text += "\nLooked in:";
  for (const auto& folder : folders_) text += "\n  " + folder.string();
  if (!folders_.empty()) text += "\nPut these files into " + folders_.back().string() + ", as they are or unpacked:";
  for (const auto& file : table_.files) {
    text += "\n  " + file.name + ".gz  " + std::to_string(file.archive_bytes) + " bytes, sha256 " + file.archive_sha256;
    for (const auto& mirror : mirrors_) text += "\n    " + address(mirror, file.name + ".gz");
  }
  return text + "\nor name a folder that has them: dataset.root=<folder>, or DDPRUN_DATA=<folder that holds " +
         table_.name + "/>";
}

}  // namespace ddprun::idx
