// SPDX-License-Identifier: MIT
#include <ddprun/value.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace ddprun {

std::string Origin::text() const {
  if (line == 0) return source;
  return source + ":" + std::to_string(line) + ":" + std::to_string(column);
}

Value Value::scalar(std::string text, Origin origin, bool quoted) {
  Value value;
  value.kind_ = Kind::kScalar;
  value.text_ = std::move(text);
  value.quoted_ = quoted;
  value.origin_ = std::move(origin);
  return value;
}

Value Value::list(Origin origin) {
  Value value;
  value.kind_ = Kind::kList;
  value.origin_ = std::move(origin);
  return value;
}

Value Value::map(Origin origin) {
  Value value;
  value.kind_ = Kind::kMap;
  value.origin_ = std::move(origin);
  return value;
}

const Value* Value::find(std::string_view key) const {
  const auto at = std::ranges::find(entries_, key, &Entry::key);
  return at == entries_.end() ? nullptr : &at->value;
}

Value* Value::find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

Value& Value::set(std::string_view key, Value value, Origin key_origin) {
  const auto at = std::ranges::find(entries_, key, &Entry::key);
  if (at == entries_.end()) {
    entries_.push_back({std::string(key), std::move(key_origin), std::move(value)});
    return entries_.back().value;
  }
  at->key_origin = std::move(key_origin);
  at->value = std::move(value);
  return at->value;
}

bool Value::erase(std::string_view key) {
  return std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; }) > 0;
}

namespace {

// Returns the text, or its first characters: a whole file may have become one text.
std::string beginning_of(const std::string& text) {
  constexpr size_t kMost = 200, kShown = 80;
  if (text.size() <= kMost) return text;
  auto end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a character of UTF-8
  return text.substr(0, end) + "...";
}

}  // namespace

std::string describe(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kNull: return "null";
    case Value::Kind::kList: return "a list";
    case Value::Kind::kMap: return "a map";
    case Value::Kind::kScalar: return "\"" + beginning_of(value.text()) + "\"";
  }
  return "a value";
}

std::string problem_line(const Origin& origin, std::string_view path, std::string_view text) {
  auto line = origin.text();
  if (!line.empty()) line += ": ";
  if (!path.empty()) line += std::string(path) + ": ";
  return line + std::string(text);
}

Value absolute_paths(Value value) {
  namespace fs = std::filesystem;
  for (auto& item : value.items()) item = absolute_paths(std::move(item));
  const auto& text = value.text();
  if (!value.is_scalar() || text.empty()) return value;
  const char* home = std::getenv("HOME");
  const bool at_home = home && (text == "~" || text.starts_with("~/"));
  const bool in_file = value.origin().line > 0;
  const auto folder = in_file ? fs::path(value.origin().source).parent_path() : fs::path();
  const auto path = fs::absolute(at_home ? fs::path(home + text.substr(1)) : folder / text).lexically_normal();
  return Value::scalar(path.string(), value.origin(), value.quoted());
}

}  // namespace ddprun
