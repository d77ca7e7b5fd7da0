// SPDX-License-Identifier: MIT
#include "log/wrapped_text.h"

#include <sstream>

namespace ddprun {

std::string wrapped(const std::string& text, size_t column, size_t indent) {
  std::istringstream words(text);
  std::string result;
  bool line_is_empty = true;
  for (std::string word; words >> word;) {
    if (!line_is_empty && column + 1 + word.size() > kTextWidth) {
      result += '\n';
      result.append(indent, ' ');
      column = indent;
      line_is_empty = true;
    }
    result += (line_is_empty ? "" : " ") + word;
    column += word.size() + (line_is_empty ? 0 : 1);
    line_is_empty = false;
  }
  return result;
}

std::string paragraph(const std::string& text, size_t indent) {
  return std::string(indent, ' ') + wrapped(text, indent, indent) + "\n";
}

std::string padded(const std::string& text, size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 0, ' ');
}

}  // namespace ddprun
