// SPDX-License-Identifier: MIT
#include "evaluation_table.h"

#include "terminal_text.h"

#include <algorithm>

namespace ddprun::console {
namespace {

constexpr size_t kLeastWidth = 7, kGap = 2;

std::string padded(const std::string& text, size_t width) {
  return std::string(width - std::min(width, shown_width(text)), ' ') + text;
}

// Returns the index of the most dispensable column: not the evaluation's, not the last, and not the epoch.
template <class Columns>
size_t least_missed(const Columns& columns) {
  for (const auto* name : {"val time", "lr", "step"}) {
    for (size_t i = 1; i + 1 < columns.size(); ++i) {
      if (columns[i].first == name) return i;
    }
  }
  for (size_t i = columns.size() - 2; i >= 1; --i) {
    if (!columns[i].first.starts_with("val ")) return i;
  }
  return columns.size() - 2;
}

}  // namespace

std::vector<std::string> EvaluationTable::add(Row row, size_t width) {
  std::vector<std::pair<std::string, size_t>> columns;
  for (const auto& [name, cell] : row)
    columns.emplace_back(name, std::max({kLeastWidth, shown_width(name), shown_width(cell)}));
  const auto total = [&] {
    size_t sum = 0;
    for (const auto& column : columns) sum += column.second + kGap;
    return sum;
  };
  while (columns.size() > 2 && total() > width) {
    const auto at = static_cast<std::ptrdiff_t>(least_missed(columns));
    columns.erase(columns.begin() + at);
    row.erase(row.begin() + at);
  }
  const bool same = std::ranges::equal(columns, columns_, [](const auto& now, const auto& before) {
    return now.first == before.first && now.second <= before.second;
  });
  std::vector<std::string> lines(same ? 1 : 2);
  if (!same) columns_ = columns;
  for (size_t i = 0; i < row.size(); ++i) {
    const auto gap = std::string(i == 0 ? 0 : kGap, ' ');
    lines.back() += gap + padded(row[i].second, columns_[i].second);
    if (!same) lines.front() += gap + padded(row[i].first, columns_[i].second);
  }
  return lines;
}

}  // namespace ddprun::console
