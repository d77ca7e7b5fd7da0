// SPDX-License-Identifier: MIT
// Reads a run's files of JSON objects, one per line, and says which of their rows count.
#pragma once

#include "base/files_below.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

// The scalar members of one JSON object, without nested ones: a row of metrics, or the head of a large table.
struct FlatObject {
  std::vector<std::pair<std::string, double>> numbers;  // NaN for null, which stands for a number that was not finite
  std::vector<std::pair<std::string, std::string>> texts;

  // Returns nothing if the text is not a whole JSON object, or nests deeper than 32 levels.
  static std::optional<FlatObject> parse(std::string_view text);

  double number(std::string_view name, double fallback = 0) const;
  int64_t integer(std::string_view name, int64_t fallback = 0) const;
  std::string_view text(std::string_view name) const;  // empty if there is none
};

// Calls `visit` with each object that has a text named `key`, and the place of its line in the file. All other lines
// add one sentence to the problems, except half a line at the end, which a killed or still writing process leaves.
// Returns false if there is no such file. Throws UserError as LineReader does.
bool read_json_lines(const std::filesystem::path& file, std::string_view key, std::vector<std::string>& problems,
                     const std::function<void(const FlatObject& object, uint64_t offset)>& visit);

// Reads a file of a run's folder line by line, in as much memory as its longest line needs.
class LineReader {
 public:
  static constexpr size_t kMostLineBytes = size_t{64} << 20;  // longer ones are skipped
  static constexpr size_t kMostSkippedBytes = size_t{1}
                                              << 30;  // longer ones end the reading: nobody wrote them as a row

  // Reads `name` below the folder, as open_below() opens it; throws UserError where that does.
  LineReader(const std::filesystem::path& folder, const std::filesystem::path& name, uint64_t offset = 0);
  explicit LineReader(const std::filesystem::path& file, uint64_t offset = 0)
      : LineReader(file.parent_path(), file.filename(), offset) {}

  bool open() const { return fd_.open(); }  // there is such a file

  // Reads the next line, without its end; returns false at the end of the file. A line is valid until the next call.
  // Throws UserError if the file cannot be read, or for a line that is longer than all that can be skipped.
  bool next();
  std::string_view line() const { return line_; }
  uint64_t offset() const { return offset_; }  // of its first byte
  int64_t number() const { return number_; }   // counted from 1
  bool ended() const { return ended_; }        // by a newline: the last line may be half written
  bool too_long() const { return too_long_; }  // the line is then empty

 private:
  bool fill();

  std::filesystem::path file_;
  UniqueFd fd_;
  std::string buffer_;     // read but not yet returned, from position_ on
  std::string_view line_;  // points into the buffer
  size_t position_ = 0;
  uint64_t offset_ = 0, next_offset_ = 0;
  int64_t number_ = 0;
  bool ended_ = false, too_long_ = false;
};

// Tracks where the attempts of a run began: rows that an earlier attempt wrote beyond that came again, and do not
// count.
class AttemptStarts {
 public:
  // The first step that is reported for an attempt counts as its start.
  void saw(int64_t attempt, int64_t step);

  // Returns the last step of an attempt that no later one has redone.
  int64_t last_step(int64_t attempt) const;

  bool counts(int64_t attempt, int64_t step) const { return step <= last_step(attempt); }
  int64_t newest() const { return starts_.empty() ? 0 : starts_.rbegin()->first; }

 private:
  std::map<int64_t, int64_t> starts_;
  std::map<int64_t, int64_t> limits_;  // only those not lowered by a later attempt: steps ascend with the attempts
};

}  // namespace ddprun
