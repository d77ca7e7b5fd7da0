// SPDX-License-Identifier: MIT
#include "config/override.h"

#include "config/defaults_list.h"

#include <string_view>
#include <utility>

namespace ddprun {
namespace {

using enum Override::Action;

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

// An override cut into what it is made of: "+", "trainer.max_steps", "3".
struct Parts {
  Override::Action action = kSet;
  std::string_view key, value;
  bool has_value = false;
};

Parts cut(std::string_view text) {
  Parts parts;
  text = trimmed(text);
  for (const auto& [mark, action] : {std::pair{"++", kForce}, {"+", kAdd}, {"~", kRemove}}) {
    if (!text.starts_with(mark)) continue;
    text.remove_prefix(std::string_view(mark).size());
    parts.action = action;
    break;
  }
  const auto equals = text.find('=');
  parts.has_value = equals != text.npos;
  parts.key = trimmed(text.substr(0, equals));
  if (parts.has_value) parts.value = trimmed(text.substr(equals + 1));
  return parts;
}

// Returns what is wrong with the form of an override; empty: nothing.
std::string wrong_form(const Parts& parts) {
  if ((parts.action == kRemove) != parts.has_value) return "";
  return parts.has_value ? "~ removes a key and takes no value: ~" + std::string(parts.key) : "expected key=value";
}

}  // namespace

std::optional<Override> parse_override(const std::string& text, Problems& problems) {
  const auto parts = cut(text);
  Override result{.action = parts.action, .origin = {.source = "command line: " + text}};
  auto wrong = wrong_form(parts);
  const auto path = parse_key_path(parts.key);
  if (wrong.empty() && !path) wrong = "expected a key such as trainer.max_epochs or loggers[0].plugin";
  if (!wrong.empty()) {
    problems.push_back(problem_line(result.origin, "", wrong));
    return std::nullopt;
  }
  result.path = *path;
  const bool of_section = path->size() == 1;
  const bool of_plugin =
      path->size() == 2 && path->back() == selector_of(path->front()) && has_short_form(path->front());
  result.chooses = parts.action != kRemove && parts.action != kAdd && (of_section || of_plugin);
  if (!parts.has_value) return result;
  auto value = parse_written_value(parts.value, result.origin, problems);
  if (!value) return std::nullopt;
  result.value = std::move(*value);
  return result;
}

}  // namespace ddprun
