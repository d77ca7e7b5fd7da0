// SPDX-License-Identifier: MIT
// <run>/mlflow/spool.jsonl: everything that a run reports, in order, one JSON object per line. It is append-only: what
// has been sent stays, so that a resumed run knows what MLflow has. Each line has one key:
//
//   spool    a word of this file's own, which the run on the server has as a tag
//   start    an attempt: `time`, `experiment`, `run_name`, `params`, `tags`
//   row      `split`, `step`, `time`, `metrics`
//   tags     some more
//   end      `status` as MLflow names it, `time`
//   file     `from` (below the run folder) is to be an artifact, `to`
//
// Times are milliseconds since 1970.
#pragma once

#include "json.h"

#include <ddprun/files.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::mlflow {

class SpoolWriter {
 public:
  // Cuts off what a killed process left half written at the end. Throws FileError if the file cannot be written, as
  // append() does.
  explicit SpoolWriter(const std::filesystem::path& file);

  // Appends all lines or none. They then outlive this process and, after sync(), a power cut.
  void append(const std::vector<Json>& lines);
  void sync() { file_.sync(); }

 private:
  RecordFile file_;
};

// May read while another thread writes.
class SpoolReader {
 public:
  struct Line {
    Json json;        // discarded if it is none of the kinds above
    int64_t end = 0;  // where the next line begins
  };

  explicit SpoolReader(std::filesystem::path file) : path_(std::move(file)) {}
  ~SpoolReader();
  SpoolReader(const SpoolReader&) = delete;
  SpoolReader& operator=(const SpoolReader&) = delete;

  // Returns the line that begins there, or nothing if no whole line does. Throws FileError if the file cannot be read.
  std::optional<Line> line_at(int64_t offset);

  // Forces what it has read to the disk: a note of what was sent must not outlive the lines that it counts.
  void sync() const { sync_path(path_); }

 private:
  bool read_more();

  std::filesystem::path path_;
  int file_ = -1;
  std::string buffer_;
  int64_t buffer_begin_ = 0;
};

}  // namespace ddprun::mlflow
