// SPDX-License-Identifier: MIT
// Handles what one rank prints: appends it to its log file, cuts it into lines for the terminal, and keeps the last
// ones for the report.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace ddprun {

// One open log file, written by a thread of its own: a file system that hangs must not keep the launcher from looking
// after its workers. Writing never throws: where it fails (a full disk), or where 4 MiB wait and nothing is taken for
// two seconds, the text is lost, `warn` gets the first failure, and the gap is marked in the file once writing works
// again. All calls, and those of `warn`, are on the owner's thread.
class LogFile {
 public:
  using Warn = std::function<void(const std::string&)>;
  LogFile(std::filesystem::path path, Warn warn);
  ~LogFile();  // flushes; a thread that hangs is left behind
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  void append(std::string_view text);
  void flush();  // waits until all is written, but not for a file that hangs
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Writer;
  void report_failure();

  std::filesystem::path path_;
  Warn warn_;
  bool reported_ = false;
  std::shared_ptr<Writer> writer_;
  std::thread thread_;
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
