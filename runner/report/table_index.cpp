// SPDX-License-Identifier: MIT
#include "report/table_index.h"

#include "report/json_lines.h"
#include "report/line_reader.h"
#include "report/run_state.h"

#include <algorithm>

namespace ddprun {

TableIndex::TableIndex(const std::filesystem::path& file, AttemptStarts& starts, std::vector<std::string>& problems)
    : file_(file) {
  read_json_lines(file, "kind", problems, [&](const FlatObject& head, uint64_t offset) {
    TableLine line{.kind = std::string(head.text("kind")),
                   .split = std::string(head.text("split")),
                   .attempt = head.integer("attempt"),
                   .epoch = head.integer("epoch"),
                   .step = head.integer("step"),
                   .offset = offset};
    starts.saw(line.attempt, line.step);
    lines_.push_back(std::move(line));
  });
  std::erase_if(lines_, [&](const TableLine& line) { return !starts.counts(line.attempt, line.step); });
}

std::vector<TableLine> TableIndex::all(std::string_view kind) const {
  std::vector<TableLine> found;
  for (const auto& line : lines_) {
    if (line.kind != kind) continue;
    std::erase_if(found, [&](const TableLine& other) { return other.split == line.split && other.step >= line.step; });
    found.push_back(line);
  }
  return found;
}

std::vector<TableLine> TableIndex::newest(std::string_view kind) const {
  std::vector<TableLine> found;
  for (auto& line : all(kind)) {
    const auto earlier = std::ranges::find(found, line.split, &TableLine::split);
    if (earlier == found.end()) {
      found.push_back(std::move(line));
    } else {
      *earlier = std::move(line);
    }
  }
  return found;
}

nlohmann::json TableIndex::read(const TableLine& line) const {
  LineReader reader(file_, line.offset);
  return reader.next() ? parse_recorded_json(reader.line()) : nlohmann::json();
}

}  // namespace ddprun
