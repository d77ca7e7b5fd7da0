// SPDX-License-Identifier: MIT
// An index of the tables in tables.jsonl: a table may be large, and most of them are not shown. Also one of the rows in
// metrics.jsonl, which have no kind.
#pragma once

#include "runs/json_lines.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

struct TableLine {
  std::string kind, split;
  int64_t attempt = 0, epoch = 0, step = 0;
  uint64_t offset = 0;  // of its line in the file
};

class TableIndex {
 public:
  // Reports whatever is broken in the file in `problems`. A missing file has no tables. Each line has a text named
  // `key`.
  TableIndex(const std::filesystem::path& file, AttemptStarts& starts, std::vector<std::string>& problems,
             std::string_view key = "kind");

  // Returns those that count, one for each step, by ascending steps.
  std::vector<TableLine> all(std::string_view kind) const;

  // Returns the last one of each split, in the order in which the splits begin.
  std::vector<TableLine> newest(std::string_view kind) const;

  // Returns all() as recorded, as the text of an array in JSON.
  std::string text(std::string_view kind) const;

  // Returns null if the file has changed.
  nlohmann::json read(const TableLine& line) const;

 private:
  std::filesystem::path file_;
  std::vector<TableLine> lines_;
};

}  // namespace ddprun
