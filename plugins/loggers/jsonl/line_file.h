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
  // Opens the file to append, or creates it. First ends a line that a killed process left unfinished, so that the next
  // does not join it. Throws UserError if it cannot be written.
  void open(const std::filesystem::path& path);
  bool is_open() const { return file_.is_open(); }

  // Appends in one write, so that several processes may append and a reader sees whole lines. Throws UserError.
  void append(const Json& line);

  // Forces the lines to the disk; does nothing if the file is not open. Throws UserError.
  void sync() { file_.sync(); }

 private:
  RecordFile file_;
};

}  // namespace ddprun::jsonl
