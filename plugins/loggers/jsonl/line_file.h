// SPDX-License-Identifier: MIT
// A file of JSON objects, one a line, that somebody may follow while it grows.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace ddprun::jsonl {

using Json = nlohmann::ordered_json;

class LineFile {
 public:
  LineFile() = default;
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Goes on at the end of the file, or makes it; half a line of a process that was killed is ended first, so that the next does not
  // join it. Throws UserError where it cannot be written.
  void open(const std::filesystem::path& path);
  bool is_open() const { return fd_ >= 0; }

  // In one write, so that several processes may append and a reader sees whole lines. Throws UserError.
  void append(const Json& line);

 private:
  void write(const std::string& text);

  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace ddprun::jsonl
