// SPDX-License-Identifier: MIT
// A file of JSON objects, one per line, that others may follow while it grows.
#pragma once

#include <ddprun/files.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace ddprun::jsonl {

using Json = nlohmann::ordered_json;

class LineFile {
 public:
  // Opens the file to append, or creates it. Throws FileError if it cannot be written.
  void open(const std::filesystem::path& path);
  bool is_open() const { return file_.is_open(); }

  // Appends in one write, so that several processes may append and a reader sees whole lines. First ends a line that a
  // killed process or a failed write left unfinished, so that this one does not join it. Throws FileError: what was not
  // appended may be so later.
  void append(const Json& line);

  // Forces the lines to the disk; does nothing if the file is not open. Throws FileError.
  void sync() { file_.sync(); }

 private:
  RecordFile file_;
  bool may_be_torn_ = true;
};

}  // namespace ddprun::jsonl
