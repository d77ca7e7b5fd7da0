// SPDX-License-Identifier: MIT
// Where the files of a data set lie, and how they get there.
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
  // `table` must outlive it. `root` is the only folder looked at, with table.subfolders below it; where it is empty,
  // $DDPRUN_DATA/<name> and the user's cache are. Reads nothing.
  DataFolder(const FileTable& table, const std::filesystem::path& root, std::vector<std::string> mirrors,
             bool may_download);

  // The files in the first folder that has all of them, unpacked ones preferred.
  std::optional<FilePaths> find() const;

  // Whether fetch() would download nothing: the files are there, or it is not allowed to.
  bool needs_no_download() const { return !may_download_ || find().has_value(); }

  // What find() gives, or a UserError that says what to put where.
  FilePaths require() const;

  // Downloads what is missing. One process does it, others of the same folder wait and then find the files. Throws
  // UserError where no mirror has a file.
  void fetch(const Progress& progress) const;

 private:
  std::string missing_text(const std::string& reason, const std::vector<std::string>& problems) const;

  const FileTable& table_;
  std::vector<std::filesystem::path> folders_;  // looked at in turn; downloads go to the last
  std::vector<std::string> mirrors_;
  bool may_download_;
};

// Declares and reads the options root, mirrors and download; `holds` is what the help says that root has ("the four
// files"). `table` must outlive the result.
DataFolder read_data_folder(const FileTable& table, const std::string& holds, Options& options);

}  // namespace ddprun::remote
