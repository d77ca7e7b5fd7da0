// SPDX-License-Identifier: MIT
// Where the four files of a data set lie, and how they get there.
#pragma once

#include <ddprun/dataset.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "file_table.h"

namespace ddprun::idx {

using FilePaths = std::array<std::filesystem::path, 4>;  // in the order of FileTable::files

class DataFolder {
 public:
  // `root` is the only folder looked at; where it is empty, $DDPRUN_DATA/<name> and the user's cache are. Reads
  // nothing.
  DataFolder(const FileTable& table, const std::string& root, std::vector<std::string> mirrors, bool may_download);

  // The files in the first folder that has all of them, unpacked ones preferred.
  std::optional<FilePaths> find() const;

  // The same, or a UserError that says what to put where.
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

}  // namespace ddprun::idx
