// SPDX-License-Identifier: MIT
#include "config/key_path.h"

#include <algorithm>
#include <charconv>

namespace ddprun {
namespace {

void collect(const Value& value, const std::string& path, std::vector<std::string>& paths) {
  if (!path.empty()) paths.push_back(path);
  const auto before = path.empty() ? "" : path + ".";
  for (const auto& entry : value.entries()) collect(entry.value, before + entry.key, paths);
  for (size_t i = 0; i < value.items().size(); ++i) collect(value.items()[i], before + std::to_string(i), paths);
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

std::vector<std::string> all_paths(const Value& root) {
  std::vector<std::string> paths;
  collect(root, "", paths);
  return paths;
}

namespace {

Override::Action take_action(std::string_view& text) {
  using enum Override::Action;
  for (const auto& [mark, action] : {std::pair{"++", kForce}, {"+", kAdd}, {"~", kRemove}}) {
    if (!text.starts_with(mark)) continue;
    text.remove_prefix(std::string_view(mark).size());
    return action;
  }
  return kSet;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

void set_origins(Value& value, const Origin& origin) {
  value.set_origin(origin);
  for (auto& item : value.items()) set_origins(item, origin);
  for (auto& entry : value.entries()) {
    entry.key_origin = origin;
    set_origins(entry.value, origin);
  }
}

// Parses lists, maps and quoted texts as YAML and takes everything else literally, so that `:`, `#` and ${env:X,y} need
// no quotes.
std::optional<Value> parse_value(std::string_view text, const Origin& origin, Problems& problems) {
  text = trimmed(text);
  if (text.empty()) return Value::scalar("", origin, true);
  if (std::string_view("[{\"'").find(text[0]) == std::string_view::npos) return plain_scalar(std::string(text), origin);
  Problems in_value;
  auto value = parse_yaml(text, "value", in_value);
  for (const auto& problem : in_value) problems.push_back(problem_line(origin, "", problem));
  if (value) set_origins(*value, origin);
  return value;
}

}  // namespace

std::optional<Override> parse_override(const std::string& text, Problems& problems) {
  Override result{.origin = {.source = "command line: " + text}};
  auto rest = trimmed(text);
  result.action = take_action(rest);
  const auto equals = rest.find('=');
  const bool removes = result.action == Override::Action::kRemove;
  if ((equals == rest.npos) != removes) {
    problems.push_back(problem_line(result.origin, "",
                                    removes
                                        ? "~ removes a key and takes no value: ~" + std::string(rest.substr(0, equals))
                                        : "expected key=value"));
    return std::nullopt;
  }
  const auto path = parse_key_path(trimmed(rest.substr(0, equals)));
  if (!path) {
    problems.push_back(
        problem_line(result.origin, "", "expected a key such as trainer.max_epochs or loggers[0].plugin"));
    return std::nullopt;
  }
  result.path = *path;
  if (removes) return result;
  auto value = parse_value(rest.substr(equals + 1), result.origin, problems);
  if (!value) return std::nullopt;
  result.value = std::move(*value);
  return result;
}

}  // namespace ddprun
