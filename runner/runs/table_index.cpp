// SPDX-License-Identifier: MIT
#include "runs/table_index.h"

#include "runs/json_lines.h"
#include "runs/run_state.h"

#include <algorithm>
#include <map>
#include <set>

namespace ddprun {

TableIndex::TableIndex(const std::filesystem::path& file, AttemptStarts& starts, std::vector<std::string>& problems,
                       std::string_view key)
    : file_(file) {
  read_json_lines(file, key, problems, [&](const FlatObject& head, uint64_t offset) {
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
  std::map<std::string_view, std::vector<size_t>> kept;  // of each split, by ascending steps
  for (size_t i = 0; i < lines_.size(); ++i) {
    if (lines_[i].kind != kind) continue;
    auto& steps = kept[lines_[i].split];
    while (!steps.empty() && lines_[steps.back()].step >= lines_[i].step) steps.pop_back();
    steps.push_back(i);
  }
  std::set<size_t> places;
  for (const auto& [split, steps] : kept) places.insert(steps.begin(), steps.end());
  std::vector<TableLine> found;
  for (const auto place : places) found.push_back(lines_[place]);
  return found;
}

std::vector<TableLine> TableIndex::newest(std::string_view kind) const {
  std::vector<TableLine> found;
  std::map<std::string, size_t> places;
  for (const auto& line : all(kind)) {
    const auto [place, fresh] = places.try_emplace(line.split, found.size());
    if (fresh) found.emplace_back();
    found[place->second] = line;
  }
  return found;
}

std::string TableIndex::text(std::string_view kind) const {
  std::string text = "[";
  LineReader reader(file_);
  for (const auto& line : all(kind)) {
    while (reader.next() && reader.offset() < line.offset) continue;
    text.append(text.size() > 1 ? ",\n" : "").append(reader.line());
  }
  return text + "]";
}

nlohmann::json TableIndex::read(const TableLine& line) const {
  LineReader reader(file_, line.offset);
  return reader.next() ? parse_recorded_json(reader.line()) : nlohmann::json();
}

}  // namespace ddprun
