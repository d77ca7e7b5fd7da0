// SPDX-License-Identifier: MIT
#include "cli/yaml_template.h"

#include "shown_text.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <stdexcept>

namespace ddprun {
namespace {

constexpr std::string_view kOpen = "${";

// Returns the code point of one UTF-8 sequence.
unsigned code_point(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  unsigned code = sequence.size() == 1 ? lead : lead & (0x7FU >> sequence.size());
  for (const char byte : sequence.substr(1)) code = code << 6 | (static_cast<unsigned char>(byte) & 0x3FU);
  return code;
}

// Control characters, and what parsers of YAML 1.1 take for the end of a line or of the file's encoding.
bool needs_escape(unsigned code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 || code == 0xFEFF ||
         code == 0xFFFE || code == 0xFFFF;
}

// Calls `take(before, name)` for each place of a line; returns what is behind the last one.
std::string_view for_each_place(std::string_view line, const std::function<void(std::string_view, std::string)>& take) {
  while (true) {
    const auto open = line.find(kOpen);
    if (open == line.npos) return line;
    const auto close = std::min(line.find('}', open), line.size() - 1);
    take(line.substr(0, open), std::string(line.substr(open + kOpen.size(), close - open - kOpen.size())));
    line.remove_prefix(close + 1);
  }
}

const std::vector<std::string>& values_of(const std::string& name, const PlaceValues& values) {
  const auto found = values.find(name);
  if (found == values.end()) throw std::logic_error("a template has the unknown place ${" + name + "}");
  return found->second;
}

std::string number(const std::string& name, const std::string& value) {
  const bool is_number = value.find_first_not_of("0123456789.,+-e ") == value.npos;
  if (!is_number) throw std::logic_error("${" + name + "} is not in \"quotes\", and is no number: " + value);
  return value;
}

// Returns the line with the `index`-th value of the places that have several.
std::string filled_line(std::string_view line, const PlaceValues& values, size_t index) {
  std::string text;
  bool is_quoted = false;
  const auto rest = for_each_place(line, [&](std::string_view before, const std::string& name) {
    const auto& all = values_of(name, values);
    const auto& value = all[std::min(index, all.size() - 1)];
    is_quoted ^= std::ranges::count(before, '"') % 2 == 1;
    text += before;
    text += is_quoted ? yaml_quotable(value) : number(name, value);
  });
  return text.append(rest);
}

// Returns how often a line is in the result.
size_t times(std::string_view line, const PlaceValues& values) {
  if (line.starts_with("##")) return 0;
  size_t most = 1;
  bool is_left_out = false;
  for_each_place(line, [&](std::string_view, const std::string& name) {
    const auto count = values_of(name, values).size();
    most = std::max(most, count);
    is_left_out |= count == 0;
  });
  return is_left_out ? 0 : most;
}

}  // namespace

std::string filled(std::string_view yaml_template, const PlaceValues& values) {
  std::string text;
  while (!yaml_template.empty()) {
    const auto line = yaml_template.substr(0, yaml_template.find('\n'));
    yaml_template.remove_prefix(std::min(line.size() + 1, yaml_template.size()));
    for (size_t i = 0, count = times(line, values); i < count; ++i) text += filled_line(line, values, i) + "\n";
  }
  return text;
}

std::string yaml_quotable(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const auto sequence = text.substr(0, std::max<size_t>(utf8_length(text), 1));
    text.remove_prefix(sequence.size());
    const auto code = code_point(sequence);
    if (needs_escape(code)) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", code);
      escaped += escape;
    } else {
      if (code == '"' || code == '\\') escaped += '\\';
      escaped += sequence;
    }
  }
  return escaped;
}

}  // namespace ddprun
