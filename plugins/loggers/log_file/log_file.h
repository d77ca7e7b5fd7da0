// SPDX-License-Identifier: MIT
// Files of loggers that outlive a power cut. A logger appends rows as they come and calls sync() in its flush(), before
// the checkpoint counts that stands for them. All that fails is a UserError with the file and the cause.
#pragma once

#include <filesystem>
#include <string_view>

namespace ddprun::log_file {

// A file that grows by records. Used from one thread.
class RecordFile {
 public:
  RecordFile() = default;
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // Makes the file, or goes on at its end; a folder that is missing is made. False where `is_new` and the file exists.
  bool open(const std::filesystem::path& path, bool is_new = false);
  bool is_open() const { return fd_ >= 0; }
  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return fd_; }

  // In one write where the system takes it, so that several processes may append and a reader sees whole records.
  void append(std::string_view record);

  // Forces what was appended, and the file's name, to the disk.
  void sync();

  void close();

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  bool appended_ = false, named_ = false;  // since the last sync; the name is on the disk
};

// Writes all of it, over signals and short writes.
void write_all(int fd, const std::filesystem::path& path, std::string_view content);

// Puts a file in place, over an earlier one: on the disk when it returns, and never torn. A folder that is missing is
// made.
void replace_file(const std::filesystem::path& file, std::string_view content);

// Makes a folder that is missing, and those above it, for good.
void make_folder(const std::filesystem::path& folder);

// Forces a file's content to the disk, or a folder's names.
void sync_path(const std::filesystem::path& path);

}  // namespace ddprun::log_file
