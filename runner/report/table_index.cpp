// SPDX-License-Identifier: MIT
#include "report/table_index.h"

#include "report/broken_lines.h"
#include "report/flat_object.h"
#include "report/line_reader.h"

#include <algorithm>

namespace ddprun {

TableIndex::TableIndex(const std::filesystem::path& file, AttemptStarts& starts, std::vector<std::string>& problems)
    : file_(file) {
  BrokenLines broken(file.filename().string());
  LineReader reader(file);
  while (reader.next()) {
    const auto head = FlatObject::parse(reader.line());
    if (!head || head->text("kind").empty()) {
      broken.add(reader);
      continue;
    }
    TableLine line{.kind = std::string(head->text("kind")),
                   .split = std::string(head->text("split")),
                   .attempt = head->integer("attempt"),
                   .epoch = head->integer("epoch"),
                   .step = head->integer("step"),
                   .offset = reader.offset()};
    starts.saw(line.attempt, line.step);
    lines_.push_back(std::move(line));
  }
  broken.tell(problems);
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
  return reader.next() ? nlohmann::json::parse(reader.line(), nullptr, /*allow_exceptions=*/false) : nlohmann::json();
}

}  // namespace ddprun
