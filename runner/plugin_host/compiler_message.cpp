// SPDX-License-Identifier: MIT
#include "plugin_host/compiler_message.h"

#include <set>
#include <sstream>
#include <utility>

namespace ddprun {
namespace {

constexpr size_t kMostErrors = 5;

bool has(const std::string& line, const char* text) { return line.find(text) != std::string::npos; }

// Matches the line before an error in a template that names the plugin's line that leads there.
bool is_cause(const std::string& line) { return has(line, "required from here"); }

bool is_error(const std::string& line) {
  if (line.starts_with("collect2:")) return false;  // only says that there are others
  return has(line, " error: ") || has(line, "undefined reference to") || has(line, "cannot find -l");
}

// Matches "  12 |   return x;" and "     |          ^", which follow an error.
bool is_source_line(const std::string& line) {
  const auto bar = line.find_first_not_of(" 0123456789");
  return bar != std::string::npos && bar > 0 && line[bar] == '|';
}

}  // namespace

std::string errors_of_compiler(const std::string& output) {
  std::istringstream lines(output);
  std::string text;
  std::string cause;
  std::set<std::string> seen;
  bool shown = false;
  for (std::string line; std::getline(lines, line);) {
    if (is_cause(line)) {
      cause = line + "\n";
      shown = false;
    } else if (is_error(line)) {
      shown = seen.size() < kMostErrors && seen.insert(line).second;
      line = std::exchange(cause, "") + line;
    } else if (!is_source_line(line)) {
      shown = false;
      if (has(line, " warning: ")) cause.clear();  // it led to the warning
    }
    if (shown) text += (text.empty() ? "" : "\n") + line;
  }
  return text.empty() ? output : text;
}

}  // namespace ddprun
