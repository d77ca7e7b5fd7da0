// SPDX-License-Identifier: MIT
// Handles what one rank prints: appends it to its log file, cuts it into lines for the terminal, and keeps the last
// ones for the report.
#pragma once

#include "base/spawn.h"

#include <deque>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun {

// One open log file. Writing never throws: if it fails (a full disk), the text is lost, `warn` gets the first failure,
// and the gap is marked in the file once writing works again.
class LogFile {
 public:
  using Warn = std::function<void(const std::string&)>;
  LogFile(std::filesystem::path path, Warn warn);
  void append(std::string_view text);
  const std::filesystem::path& path() const { return path_; }

 private:
  bool write(std::string_view text);
  void tell_failure();  // from errno

  std::filesystem::path path_;
  Warn warn_;
  UniqueFd fd_;
  size_t lost_bytes_ = 0;
  bool warned_ = false;
};

// Cuts a stream of bytes into lines. A line without an end is cut at 64 KiB.
class LineCutter {
 public:
  using Take = std::function<void(std::string_view line)>;  // without the newline
  void feed(std::string_view text, const Take& take);
  void end(const Take& take);  // hands over a last line without a newline

 private:
  std::string partial_;
};

// The last lines of one rank, for the report.
class LastLines {
 public:
  void add(std::string_view line);
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  std::deque<std::string> lines_;
  size_t others_ = 0;  // lines that are not calls
};

}  // namespace ddprun
