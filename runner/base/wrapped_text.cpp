// SPDX-License-Identifier: MIT
#include "base/wrapped_text.h"

#include <algorithm>
#include <sstream>

namespace ddprun {

size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; }));
}

std::string cut_back(const std::string& text, size_t width) {
  if (width_of(text) <= width) return text;
  size_t end = 0;
  for (size_t kept = 0; kept < width - 3; ++kept) {
    do {
      ++end;
    } while (end < text.size() && (text[end] & 0xC0) == 0x80);
  }
  return text.substr(0, end) + "...";
}

std::string wrapped(const std::string& text, size_t column, size_t indent) {
  std::istringstream words(text);
  std::string result;
  bool line_is_empty = true;
  for (std::string word; words >> word;) {
    if (!line_is_empty && column + 1 + width_of(word) > kTextWidth) {
      result += '\n';
      result.append(indent, ' ');
      column = indent;
      line_is_empty = true;
    }
    result += (line_is_empty ? "" : " ") + word;
    column += width_of(word) + (line_is_empty ? 0 : 1);
    line_is_empty = false;
  }
  return result;
}

std::string paragraph(const std::string& text, size_t indent) {
  return std::string(indent, ' ') + wrapped(text, indent, indent) + "\n";
}

std::string padded(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, width_of(text)), ' ');
}

std::string grouped(int64_t count) {
  auto text = std::to_string(count);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<size_t>(at), ",");
  return text;
}

}  // namespace ddprun
