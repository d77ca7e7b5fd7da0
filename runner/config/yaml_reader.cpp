// SPDX-License-Identifier: MIT
#include "config/yaml_reader.h"

#include "config/compose.h"
#include "config/yaml_builder.h"
#include "shown_text.h"

#include <ddprun/error.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <sstream>

namespace ddprun {
namespace {

std::string_view line_of(std::string_view text, int line) {
  for (; line > 0 && !text.empty(); --line) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text.substr(0, text.find('\n'));
}

// Returns the last bracket that is open at the end of `text`, "{ in line 2"; empty if there is none. Handles quotes and
// comments within one line.
std::string open_bracket(std::string_view text) {
  std::vector<std::string> open;
  int line = 1;
  char quote = 0, before = '\n';
  for (size_t i = 0; i < text.size(); before = text[i++]) {
    const char c = text[i];
    const bool in_text = std::isalnum(static_cast<unsigned char>(before)) != 0;
    if (c == '\n') ++line, quote = 0;
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if ((c == '"' || c == '\'') && !in_text) {
      quote = c;
    } else if (c == '#' && (before == ' ' || before == '\n')) {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '{' || c == '[') {
      open.push_back(std::string(1, c) + " in line " + std::to_string(line));
    } else if ((c == '}' || c == ']') && !open.empty()) {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back();
}

// Returns yaml-cpp's message and its usual cause.
std::string syntax_problem(const YAML::Exception& error, std::string_view text) {
  std::string problem = "not valid YAML: " + error.msg;
  const auto line = error.mark.is_null() ? std::string_view() : line_of(text, error.mark.line);
  const auto indent = line.substr(0, line.find_first_not_of(" \t"));
  if (error.msg == YAML::ErrorMsg::EOF_IN_SCALAR) problem += "; a quote is opened and never closed";
  if (indent.find('\t') != indent.npos && error.msg != YAML::ErrorMsg::TAB_IN_INDENTATION)
    problem += "; the line begins with a tab, but only spaces indent";
  if (error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW || error.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW) {
    const auto bracket = open_bracket(text.substr(0, static_cast<size_t>(std::max(error.mark.pos, 0))));
    if (!bracket.empty()) problem += "; the " + bracket + " is not closed, or a comma is missing in it";
  }
  if (line.find("${") != line.npos) problem += "; inside [], {} and \"\" put ${...} into 'quotes'";
  return problem;
}

void note(Problems& problems, const Origin& place, std::string_view text) {
  problems.push_back(problem_line(place, "", text));
}

// Returns whether the text may be passed to yaml-cpp, which takes byte 4 for the end of the file and passes broken
// UTF-8 on.
bool is_text(std::string_view text, const std::string& source, Problems& problems) {
  Origin place{.source = source, .line = 1, .column = 1};
  while (!text.empty()) {
    const auto length = utf8_length(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    const bool control = (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F;
    if (length == 0 || control) {
      note(problems, place,
           "not a text file: byte " + std::to_string(byte) + (control ? " is a control character" : " is not UTF-8"));
      return false;
    }
    ++place.column;
    if (byte == '\n') place = {.source = source, .line = place.line + 1, .column = 1};
    text.remove_prefix(length);
  }
  return true;
}

// Parses the text. yaml-cpp takes the end of the last line for the end of a quoted text that is still open, and for the
// colon of a key that lacks it, so a comment is appended.
void parse(std::string_view text, YamlBuilder& builder) {
  std::istringstream stream(std::string(text) + (text.ends_with('\n') ? "#" : ""));
  YAML::Parser parser(stream);
  while (parser.HandleNextDocument(builder)) {
  }
}

}  // namespace

std::optional<Value> parse_yaml(std::string_view text, const std::string& source, Problems& problems) {
  if (!is_text(text, source, problems)) return std::nullopt;
  YamlBuilder builder(source, problems);
  try {
    parse(text, builder);
    return builder.take();
  } catch (const UnreadableYaml& unreadable) {
    problems.push_back(unreadable.text);
  } catch (const YAML::Exception& error) {
    note(problems, builder.origin(error.mark), syntax_problem(error, text));
  }
  return std::nullopt;
}

std::optional<Value> read_yaml(const std::filesystem::path& file, Problems& problems) {
  const Origin place{.source = file.string()};
  std::error_code ignored;
  std::ifstream stream(file, std::ios::binary);
  if (!stream || std::filesystem::is_directory(file, ignored)) {
    note(problems, place, "cannot be read");
    return std::nullopt;
  }
  std::string text;
  std::array<char, 1 << 14> piece;
  while (stream && text.size() <= kMaxYamlBytes) {  // not further: it may be endless
    stream.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<size_t>(stream.gcount()));
  }
  if (stream.bad()) {
    note(problems, place, "cannot be read to its end");
    return std::nullopt;
  }
  if (text.size() > kMaxYamlBytes) {
    note(problems, place, "larger than 1 MB; no experiment is");
    return std::nullopt;
  }
  return parse_yaml(text, file.string(), problems);
}

Value load_yaml(const std::filesystem::path& file) {
  Problems problems;
  auto value = read_yaml(file, problems);
  if (value && value->is_null()) problems.push_back(file.string() + ": the file is empty");
  if (value && !value->is_null() && !value->is_map())
    note(problems, value->origin(), "expected a map of keys, found " + describe(*value));
  if (!problems.empty()) throw_problems(problems);
  return std::move(*value);
}

void throw_problems(const std::vector<std::string>& problems) {
  constexpr size_t kMostLines = 100;
  std::string text;
  for (size_t i = 0; i < std::min(problems.size(), kMostLines); ++i) text += (i ? "\n" : "") + problems[i];
  if (problems.size() > kMostLines) text += "\n... and " + std::to_string(problems.size() - kMostLines) + " more";
  throw UserError(text);
}

Value plain_scalar(std::string text, Origin origin) {
  const bool null = text == "null" || text == "~" || text == "Null" || text == "NULL";
  auto value = null ? Value() : Value::scalar(std::move(text));
  value.set_origin(std::move(origin));
  return value;
}

namespace {

void set_origins(Value& value, const Origin& origin) {
  value.set_origin(origin);
  for (auto& item : value.items()) set_origins(item, origin);
  for (auto& entry : value.entries()) {
    entry.key_origin = origin;
    set_origins(entry.value, origin);
  }
}

// Parses text all of which has one place.
std::optional<Value> parse_at(std::string_view text, const Origin& place, Problems& problems) {
  Problems in_value;
  auto value = parse_yaml(text, "value", in_value);
  for (const auto& problem : in_value) note(problems, place, problem);
  if (value) set_origins(*value, place);
  return value;
}

}  // namespace

std::optional<Value> parse_written_value(std::string_view text, const Origin& place, Problems& problems) {
  if (text.empty()) return Value::scalar("", place, true);
  const bool is_yaml = text.find_first_of("[{\"'") == 0;
  return is_yaml ? parse_at(text, place, problems) : plain_scalar(std::string(text), place);
}

size_t count_nodes(const Value& value) {
  size_t nodes = 1;
  for (const auto& item : value.items()) nodes += count_nodes(item);
  for (const auto& entry : value.entries()) nodes += count_nodes(entry.value);
  return nodes;
}

size_t depth_of(const Value& value) {
  size_t below = 0;
  for (const auto& item : value.items()) below = std::max(below, depth_of(item));
  for (const auto& entry : value.entries()) below = std::max(below, depth_of(entry.value));
  return value.is_list() || value.is_map() ? below + 1 : 0;
}

}  // namespace ddprun
