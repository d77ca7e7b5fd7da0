// SPDX-License-Identifier: MIT
// Files and folders that survive a power cut. Every failure is a UserError that names the file, the cause and the
// remedy.
#pragma once

#include "base/sha256.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace ddprun {

struct FileDigest {
  uint64_t size = 0;
  std::string sha256;  // lower-case hexadecimal

  bool operator==(const FileDigest&) const = default;
};

// A new file (an existing one is emptied), whose digest is computed while it is written. It is removed again unless it
// is finished.
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(const void* data, size_t size);

  // Forces the data to the disk and closes the file.
  FileDigest finish();

 private:
  [[noreturn]] void fail(int error_number) const;

  std::filesystem::path path_;
  int fd_;
  uint64_t size_ = 0;
  Sha256 sha256_;
};

// Returns the size of a regular file. Throws UserError for a folder, a pipe, or a file that cannot be examined.
uint64_t size_of_file(const std::filesystem::path& file);

// Returns what the file holds, and nothing if it cannot be read to its end: it is missing, its disk fails, or it is one
// of /proc whose process has ended.
std::string content_of(const std::filesystem::path& file);

// Reads a whole file to compute its size and SHA-256.
FileDigest digest_of(const std::filesystem::path& file);

// Creates the folder and its parents if missing, and forces the new entries to the disk.
void make_folder(const std::filesystem::path& folder);

// Forces a folder's entries to the disk: names that were created, renamed or removed in it. A file system that cannot
// (some network ones) and a folder that nobody may list are no errors.
void sync_folder(const std::filesystem::path& folder);

// Replaces what `to` names, atomically, and forces the change to the disk. Both must be in one folder.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Exchanges the two folders' names, and forces the change to the disk. On a file system without such a rename `to` is
// missing for a moment. Both must be in one folder.
void exchange_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Does the same as rename_durably(), but throws UserError if `to` exists; `from` then stays.
void rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to);

// Makes `link` a symbolic link to `target`, replacing an earlier one: a reader sees the old or the new.
void point_link_at(const std::filesystem::path& link, const std::filesystem::path& target);

// Writes all of `text`, despite interruptions and partial writes. On failure returns false, with errno; `text` is then
// what was not written.
bool write_all(int fd, std::string_view& text);

// Writes beside `file` under a temporary name, fsyncs, renames over it, fsyncs the folder. Throws std::system_error
// with the path and the cause; the temporary file is then gone and an older `file` untouched, unless it is the folder's
// fsync that failed.
void write_file_atomically(const std::filesystem::path& file, std::string_view content, unsigned mode = 0666);

// An output file: it appears complete or not at all, and never replaces another.
class NewFile {
 public:
  // Throws UserError if the file exists or its folder does not.
  explicit NewFile(std::filesystem::path path);
  ~NewFile();  // removes the file unless it was kept
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }  // absolute; the file to write to

  // Moves the file to its final name. Throws UserError if another process has taken that meanwhile.
  void keep();

 private:
  std::filesystem::path path_, temporary_;
};

}  // namespace ddprun
