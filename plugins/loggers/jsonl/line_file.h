// SPDX-License-Identifier: MIT
// A file of JSON objects, one a line, that somebody may follow while it grows.
#pragma once

#include "log_file.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace ddprun::jsonl {

using Json = nlohmann::ordered_json;

class LineFile {
 public:
  // Goes on at the end of the file, or makes it; half a line of a process that was killed is ended first, so that the
  // next does not join it. Throws UserError where it cannot be written.
  void open(const std::filesystem::path& path);
  bool is_open() const { return file_.is_open(); }

  // In one write, so that several processes may append and a reader sees whole lines. Throws UserError.
  void append(const Json& line);

  // Forces the lines to the disk. Nothing where it is not open. Throws UserError.
  void sync() { file_.sync(); }

 private:
  log_file::RecordFile file_;
};

}  // namespace ddprun::jsonl
