// SPDX-License-Identifier: MIT
// Files and folders of runs: what <ddprun/files.h> does not have. Every failure is a UserError that names the file, the
// cause and the remedy.
#pragma once

#include "base/spawn.h"

#include <ddprun/files.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace ddprun {

// Returns the size of a regular file. Throws UserError for a folder, a pipe, or a file that cannot be examined.
uint64_t size_of_file(const std::filesystem::path& file);

// Returns what the file holds, and nothing if there is no such file. Throws FileError if it cannot be read to its end.
std::string content_of(const std::filesystem::path& file);

// A run's folder as it was when this object was made. Others may remove, move, empty or replace it while the run
// trains: nothing may be written to what is at its path then. May be used by several threads.
class HeldFolder {
 public:
  explicit HeldFolder(std::filesystem::path run_dir);  // throws UserError if there is none

  // Errors other than a missing file count as there: a network file system may be away for a moment.
  bool is_there() const;
  void require() const;  // throws UserError where it is not there

  std::string problem() const;  // what require() says

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
  bool has_config_;
};

// Exchanges the two folders' names, and forces the change to the disk. On a file system without such a rename `to` is
// missing for a moment. Both must be in one folder.
void exchange_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Does the same as rename_durably(), but throws UserError if `to` exists; `from` then stays.
void rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to);

// Makes `link` a symbolic link to `target`, replacing an earlier one: a reader sees the old or the new.
void point_link_at(const std::filesystem::path& link, const std::filesystem::path& target);

// An output file: it appears complete or not at all, and never replaces another.
class NewFile {
 public:
  // Throws UserError if its folder does not exist or, unless `replaces`, if the file does; `cure` is what to do then.
  explicit NewFile(std::filesystem::path path, bool replaces = false, const std::string& cure = "choose another name");
  ~NewFile();  // removes the file unless it was kept
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }  // absolute; the file to write to

  // Moves the file to its final name. Throws UserError if another process has taken that meanwhile.
  void keep();

 private:
  std::filesystem::path path_, temporary_;
  bool replaces_;
};

}  // namespace ddprun
