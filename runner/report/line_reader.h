// SPDX-License-Identifier: MIT
// Reads a file line by line, in as much memory as its longest line needs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace ddprun {

class LineReader {
 public:
  static constexpr size_t kMostLineBytes = size_t{64} << 20;  // longer ones are skipped

  explicit LineReader(const std::filesystem::path& file, uint64_t offset = 0);

  bool open() const { return stream_.is_open(); }

  // Reads the next line, without its end; returns false at the end of the file. A line is valid until the next call.
  bool next();
  std::string_view line() const { return line_; }
  uint64_t offset() const { return offset_; }    // of its first byte
  uint64_t end() const { return next_offset_; }  // of the line after it
  int64_t number() const { return number_; }     // counted from 1
  bool ended() const { return ended_; }          // by a newline: the last line may be half written
  bool too_long() const { return too_long_; }    // the line is then empty

 private:
  bool fill();

  std::ifstream stream_;
  std::string buffer_;     // read but not yet returned, from position_ on
  std::string_view line_;  // points into the buffer
  size_t position_ = 0;
  uint64_t offset_ = 0, next_offset_ = 0;
  int64_t number_ = 0;
  bool ended_ = false, too_long_ = false;
};

}  // namespace ddprun
