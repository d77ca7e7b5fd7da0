// SPDX-License-Identifier: MIT
#include "config/compose.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

constexpr size_t kCommentColumn = 48;  // column of the origins, if lines are short enough
constexpr std::string_view kDigits = "0123456789abcdef";

struct Line {
  std::string text;
  std::string origin;
};

bool is_alphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Returns whether YAML reads the text back as the same unquoted scalar; rather too strict than too lax.
bool is_plain(const std::string& text) {
  if (text.empty() || text == "null" || text == "Null" || text == "NULL" || text == "~") return false;
  const auto starts_plain = [](char c) {
    return is_alphanumeric(c) || std::string_view("_./+$\\(").find(c) != std::string_view::npos;
  };
  const bool negative = text[0] == '-' && text.size() > 1 && is_alphanumeric(text[1]);
  if (!starts_plain(text[0]) && !negative) return false;
  if (text.starts_with("...") || text.back() == ' ' || text.back() == ':') return false;
  if (text.find(": ") != text.npos || text.find(" #") != text.npos) return false;
  return std::ranges::all_of(text, [](unsigned char byte) { return byte >= 0x20 && byte < 0x7F; });
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += std::string("\\") + c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      result += std::string("\\x") + kDigits[byte >> 4] + kDigits[byte & 15];
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string key_text(const std::string& key) { return is_plain(key) ? key : quoted(key); }

// Formats values that fit on the line of their key.
std::string inline_text(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kNull: return "null";
    case Value::Kind::kScalar: return value.quoted() || !is_plain(value.text()) ? quoted(value.text()) : value.text();
    case Value::Kind::kList: return "[]";
    case Value::Kind::kMap: return "{}";
  }
  return "";
}

bool is_inline(const Value& value) { return value.items().empty() && value.entries().empty(); }

// Writes a value. `first` starts the first line instead of its indent: "- " of the list that this map is an entry of.
void write(const Value& value, const std::string& indent, std::string first, std::vector<Line>& lines);

void write_entry(const std::string& head, const Value& value, const Origin& origin, const std::string& indent,
                 std::vector<Line>& lines) {
  if (is_inline(value)) {
    lines.push_back({head + " " + inline_text(value), value.origin().text()});
  } else {
    lines.push_back({head, origin.text()});
    write(value, indent, indent, lines);
  }
}

void write(const Value& value, const std::string& indent, std::string first, std::vector<Line>& lines) {
  for (const auto& entry : value.entries()) {
    write_entry(std::exchange(first, indent) + key_text(entry.key) + ":", entry.value, entry.key_origin, indent + "  ",
                lines);
  }
  for (const auto& item : value.items()) {
    const auto start = std::exchange(first, indent);
    if (item.is_map() && !is_inline(item)) {
      write(item, indent + "  ", start + "- ", lines);
    } else {
      write_entry(start + "-", item, item.origin(), indent + "  ", lines);
    }
  }
}

// Removes line breaks, since a comment ends with its line.
std::string one_line(std::string text) {
  std::ranges::replace_if(text, [](unsigned char byte) { return byte < 0x20; }, ' ');
  return text;
}

}  // namespace

std::string to_yaml(const Value& value, bool origins) {
  std::vector<Line> lines;
  if (is_inline(value)) {
    lines.push_back({inline_text(value), value.origin().text()});
  } else {
    write(value, "", "", lines);
  }
  size_t column = 0;
  for (const auto& line : lines) column = std::max(column, std::min(line.text.size(), kCommentColumn));
  std::string text;
  for (const auto& line : lines) {
    text += line.text;
    if (origins && !line.origin.empty()) {
      text +=
          std::string(column > line.text.size() ? column - line.text.size() : 0, ' ') + "  # " + one_line(line.origin);
    }
    text += "\n";
  }
  return text;
}

}  // namespace ddprun
