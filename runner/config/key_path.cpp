// SPDX-License-Identifier: MIT
#include "config/key_path.h"

#include <algorithm>
#include <charconv>

namespace ddprun {
namespace {

void collect(const Value& value, const std::string& path, std::vector<PlacedValue>& values) {
  if (!path.empty()) values.push_back({path, value});
  const auto before = path.empty() ? "" : path + ".";
  for (const auto& entry : value.entries()) collect(entry.value, before + entry.key, values);
  for (size_t i = 0; i < value.items().size(); ++i) collect(value.items()[i], before + std::to_string(i), values);
}

}  // namespace

std::optional<size_t> list_index(std::string_view text) {
  size_t index = 0;
  const auto end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, index);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return index;
}

std::optional<KeyPath> parse_key_path(std::string_view text) {
  KeyPath path(1);
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '.') {
      path.emplace_back();
    } else if (text[at] == '[') {
      const auto close = text.find(']', at);
      if (close == text.npos || !list_index(text.substr(at + 1, close - at - 1))) return std::nullopt;
      path.emplace_back(text.substr(at + 1, close - at - 1));
      at = close;
      if (at + 1 < text.size() && text[at + 1] != '.' && text[at + 1] != '[') return std::nullopt;
    } else {
      path.back() += text[at];
    }
  }
  if (std::ranges::any_of(path, &std::string::empty)) return std::nullopt;
  return path;
}

KeyMessage split_message(const std::string& message) {
  const auto is_part_of_key = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  };
  const auto end = message.find(": ");
  if (end == message.npos || end == 0 || !std::ranges::all_of(message.substr(0, end), is_part_of_key))
    return {.text = message};
  return {message.substr(0, end), message.substr(end + 2)};
}

std::string to_text(const KeyPath& path) {
  std::string text;
  for (const auto& part : path) text += (text.empty() ? "" : ".") + part;
  return text;
}

Value* child(Value& parent, std::string_view key) {
  if (parent.is_map()) return parent.find(key);
  const auto index = list_index(key);
  if (!parent.is_list() || !index || *index >= parent.items().size()) return nullptr;
  return &parent.items()[*index];
}

Value* find_at(Value& root, const KeyPath& path) {
  auto* value = &root;
  for (size_t i = 0; value && i < path.size(); ++i) value = child(*value, path[i]);
  return value;
}

const Value* find_at(const Value& root, const KeyPath& path) { return find_at(const_cast<Value&>(root), path); }

Origin place_at(const Value& root, KeyPath path) {
  for (; !path.empty(); path.pop_back()) {
    if (const auto* value = find_at(root, path)) return value->origin();
  }
  return {};
}

std::vector<PlacedValue> all_values(const Value& root) {
  std::vector<PlacedValue> values;
  collect(root, "", values);
  return values;
}

}  // namespace ddprun
