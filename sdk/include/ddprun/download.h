// SPDX-License-Identifier: MIT
// Files of a data set that are on this machine already, or are downloaded over HTTP. A plugin links ddprun::download.
//
//   const FileTable kTable{.name = "my_data", .files = {...}, .mirrors = {"https://example.org/data"}};
//   explicit MyData(Options& options) : folder_(read_data_folder(kTable, "the two files", options)) {}
//   void prepare(const Progress& progress) override { folder_.fetch(progress); }
//   void start() override { const auto paths = folder_.require(); ... }
#pragma once

#include <ddprun/api.h>
#include <ddprun/dataset.h>
#include <ddprun/options.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// A file that servers have.
struct RemoteFile {
  std::string name;            // below each mirror's address, and in the folder
  int64_t bytes = 0;           // expected size, for the progress
  std::string sha256;          // of the file, 64 lower-case digits
  std::string content_sha256;  // of what is gzipped in it; accepts other packings of it; may be empty
};

struct DownloadLimits {
  int64_t connect_seconds = 10;
  int64_t stall_seconds = 30;        // without receiving a byte
  int attempts = 4;                  // per address, as long as each brings some bytes
  int64_t most_bytes = 1LL << 30;    // a server that sends more is cut off
  int64_t pause_milliseconds = 500;  // before resuming where the last attempt was cut off
};

// Downloads a file into `folder` from the first of several addresses that has it whole and unaltered, or not at all;
// until then it is <name>.part, which a later call resumes. Returns what went wrong at each address, one line each, or
// nothing if the file is there. Throws UserError if the folder cannot be written, and what `progress` throws.
DDPRUN_API std::vector<std::string> download(const RemoteFile& file, const std::vector<std::string>& mirrors,
                                             const std::filesystem::path& folder, const Progress& progress,
                                             const DownloadLimits& limits = {});

// A file of a data set, as it is downloaded or as somebody has unpacked it.
struct FileEntry {
  RemoteFile archive;
  std::vector<std::string> unpacked;  // alternatives below the folder, any of which will do; checked before the archive
};

// What a data set consists of, and where to download it.
struct FileTable {
  std::string name;  // of the data set and its folder
  std::vector<FileEntry> files;
  std::vector<std::string> mirrors;
  std::vector<std::string> subfolders = {};  // of dataset.root, searched too: torchvision's
};

using FilePaths = std::vector<std::filesystem::path>;  // in the order of FileTable::files

// Finds the files of a data set on this machine, and downloads those that are missing. Used by one thread at a time.
class DDPRUN_API DataFolder {
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

// Declares and reads the options root, mirrors and download. `holds` says for the help what root contains ("the four
// files"). `table` must outlive the result.
DDPRUN_API DataFolder read_data_folder(const FileTable& table, const std::string& holds, Options& options);

}  // namespace ddprun
