// SPDX-License-Identifier: MIT
// The files of a data set on disk, and their download.
#pragma once

#include "file_table.h"

#include <ddprun/dataset.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::remote {

using FilePaths = std::vector<std::filesystem::path>;  // in the order of FileTable::files

class DataFolder {
 public:
  // `table` must outlive this object. `root` is the only folder searched, with table.subfolders below it; if it is
  // empty, $DDPRUN_DATA/<name> and the user's cache are. Reads nothing.
  DataFolder(const FileTable& table, const std::filesystem::path& root, std::vector<std::string> mirrors,
             bool may_download);

  // Returns the files in the first folder that has all of them, preferring unpacked ones.
  std::optional<FilePaths> find() const;

  // Returns true if fetch() would download nothing: the files are there, or it must not download.
  bool needs_no_download() const { return !may_download_ || find().has_value(); }

  // Returns what find() gives, or throws a UserError that says what to put where.
  FilePaths require() const;

  // Downloads what is missing. Only one process downloads; others of the same folder wait and then find the files.
  // Throws UserError if no mirror has a file.
  void fetch(const Progress& progress) const;

 private:
  std::string missing_text(const std::string& reason, const std::vector<std::string>& problems) const;

  const FileTable& table_;
  std::vector<std::filesystem::path> folders_;  // searched in turn; downloads go to the last
  std::vector<std::string> mirrors_;
  bool may_download_;
};

// Declares and reads the options root, mirrors and download. `holds` tells the help what root contains ("the four
// files"). `table` must outlive the result.
DataFolder read_data_folder(const FileTable& table, const std::string& holds, Options& options);

}  // namespace ddprun::remote
