// SPDX-License-Identifier: MIT
#include "csv_cell.h"

#include "shown_text.h"

#include <cstdlib>
#include <string_view>

namespace ddprun {
namespace {

// True if a spreadsheet would take the text for a formula, or if it is a formula that was already turned into text.
bool looks_like_formula(const std::string& text) {
  const auto first = text.find_first_not_of('\'');
  if (first == std::string::npos || std::string_view("=+-@\t\r").find(text[first]) == std::string::npos) return false;
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return end == text.c_str() || *end != '\0';
}

}  // namespace

std::string csv_cell(const std::string& name) {
  const auto text = to_utf8(name);
  const std::string mark = looks_like_formula(text) ? "'" : "";
  if (text.find_first_of(",\"\r\n") == std::string::npos) return mark + text;
  std::string quoted = "\"" + mark;
  for (const char byte : text) quoted += byte == '"' ? "\"\"" : std::string(1, byte);
  return quoted + "\"";
}

std::vector<std::string> csv_cells(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool twice = quoted && line[i] == '"' && i + 1 < line.size() && line[i + 1] == '"';
    if (line[i] == '"' && !twice) {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += line[i];
      i += twice ? 1 : 0;
    }
  }
  for (auto& cell : cells) {
    if (cell.starts_with('\'') && looks_like_formula(cell)) cell.erase(0, 1);
  }
  return cells;
}

}  // namespace ddprun
