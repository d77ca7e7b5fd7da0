// SPDX-License-Identifier: MIT
#include "config/override_text.h"

#include <algorithm>

namespace ddprun {
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

// Lists, maps and quoted texts are YAML; everything else is taken as it stands, so that `:`, `#` and ${env:X,y} need no
// quotes.
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
