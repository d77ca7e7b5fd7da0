// SPDX-License-Identifier: MIT
// Log files that survive a power cut. A logger appends rows as they come and calls sync() in its flush(), before the
// checkpoint that stands for them counts. Every failure is a UserError with the file and the cause.
#pragma once

#include <filesystem>
#include <string_view>

namespace ddprun::log_file {

// A file that grows by records. Not thread-safe.
class RecordFile {
 public:
  RecordFile() = default;
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // Creates the file, or opens it to append; creates a missing folder. Returns false if `is_new` and the file exists.
  bool open(const std::filesystem::path& path, bool is_new = false);
  bool is_open() const { return fd_ >= 0; }
  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return fd_; }

  // Appends in one write if the system takes it, so that several processes may append and a reader sees whole records.
  void append(std::string_view record);

  // Forces the appended records and the file's name to the disk.
  void sync();

  void close();

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  bool appended_ = false, named_ = false;  // appended since the last sync; the name is on the disk
};

// Writes everything, despite signals and short writes.
void write_all(int fd, const std::filesystem::path& path, std::string_view content);

// Replaces a file atomically: it is on the disk when this returns, and never torn. Creates a missing folder.
void replace_file(const std::filesystem::path& file, std::string_view content);

// Creates a folder and its parents durably.
void make_folder(const std::filesystem::path& folder);

// Forces a file's content, or a folder's names, to the disk.
void sync_path(const std::filesystem::path& path);

}  // namespace ddprun::log_file
