// SPDX-License-Identifier: MIT
#include "group_rule.h"

#include <ddprun/error.h>
#include <ddprun/parameters.h>

#include <algorithm>

namespace ddprun {
namespace {

bool matches(const GroupRule& rule, const std::string& name) {
  return std::ranges::any_of(rule.patterns, [&](const auto& pattern) { return name_matches(pattern, name); });
}

// Drops the places from the tree: the reader reports the place of the whole.
Value placeless(Value value) {
  value.set_origin({});
  for (auto& item : value.items()) item = placeless(std::move(item));
  for (auto& entry : value.entries()) {
    entry.key_origin = {};
    entry.value = placeless(std::move(entry.value));
  }
  return value;
}

constexpr auto kPatternsType = "string | list of string";

// Returns the patterns in `value`, the option of this name.
std::vector<std::string> patterns_of(const Value& value, Options& options, const std::string& name) {
  if (!options.has(name)) return {};
  if (value.is_scalar()) return {value.text()};
  const auto& items = value.items();
  std::vector<std::string> patterns;
  if (std::ranges::all_of(items, &Value::is_scalar))
    std::ranges::transform(items, std::back_inserter(patterns), &Value::text);
  if (patterns.empty()) options.reject(name, "expected a pattern or a list of patterns, found " + describe(value));
  return patterns;
}

std::vector<std::string> read_patterns(Options& group) {
  const auto value = group.subtree("parameters", "patterns of their names, such as \"*.bias\"", kPatternsType, true);
  return patterns_of(value, group, "parameters");
}

// Returns "mnist.yaml:7:12: ".
std::string before_text(const Value& value) {
  const auto origin = value.origin().text();
  return origin.empty() ? "" : origin + ": ";
}

std::optional<double> read_number(Options& group, const std::string& name, const std::string& help) {
  const bool given = group.has(name);
  const auto number = group.get<double>(name, 0, help + "; by default the optimizer's", {.min = 0});
  return given ? std::optional(number) : std::nullopt;
}

GroupRule read_rule(const Value& item, std::vector<std::string>& problems) {
  Options group(placeless(item), "");
  GroupRule rule{.patterns = read_patterns(group)};
  rule.lr = read_number(group, "lr", "learning rate of these");
  rule.weight_decay = read_number(group, "weight_decay", "weight decay of these");
  problems = group.problems();
  return rule;
}

void refuse_unmatched(const std::vector<NamedParameter>& parameters, const GroupRule& rule, const std::string& whose) {
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter.name);
  for (const auto& pattern : rule.patterns) {
    if (std::ranges::any_of(names, [&](const auto& name) { return name_matches(pattern, name); })) continue;
    throw UserError(rule.place + "no parameter " + (whose.empty() ? "" : "of " + whose + " ") + "matches \"" + pattern +
                    "\"" + nearest_pattern(pattern, names) + "; " +
                    (whose.empty() ? "the model has " : whose + " are ") + first_names(names));
  }
}

}  // namespace

std::vector<GroupRule> read_group_rules(Options& options, const std::string& name) {
  const auto value =
      options.subtree(name, "parameters with their own lr or weight decay: {parameters: \"*.bias\", weight_decay: 0}",
                      "list of {parameters, lr, weight_decay}");
  if (!value.is_list() && options.has(name))
    options.reject(
        name, "expected a list of groups, as in [{parameters: \"*.bias\", weight_decay: 0}], found " + describe(value));
  std::vector<GroupRule> rules;
  for (const auto& item : value.items()) {
    std::vector<std::string> problems;
    rules.push_back(read_rule(item, problems));
    const auto origin = item.origin().text();
    rules.back().place = before_text(item) + options.path() + "." + name + ": ";
    const auto which = "group " + std::to_string(rules.size()) + (origin.empty() ? "" : " (" + origin + ")") + ": ";
    for (const auto& problem : problems) options.reject(name, which + problem);
  }
  return rules;
}

GroupRule read_pattern_rule(Options& options, const std::string& name, const std::string& help) {
  const auto value = options.subtree(name, help, kPatternsType);
  const bool none = value.is_list() && value.items().empty();
  return {.patterns = none ? std::vector<std::string>() : patterns_of(value, options, name),
          .place = before_text(value) + options.path() + "." + name + ": "};
}

std::vector<std::vector<NamedParameter>> dealt_out(std::vector<NamedParameter> parameters,
                                                   const std::vector<GroupRule>& rules, const std::string& whose) {
  for (const auto& rule : rules) refuse_unmatched(parameters, rule, whose);
  std::vector<std::vector<NamedParameter>> groups(rules.size() + 1);
  for (auto& parameter : parameters) {
    const auto rule = std::ranges::find_if(rules, [&](const auto& one) { return matches(one, parameter.name); });
    groups[rule == rules.end() ? 0 : rule - rules.begin() + 1].push_back(std::move(parameter));
  }
  for (size_t i = 0; i < rules.size(); ++i) {
    if (!groups[i + 1].empty()) continue;
    throw UserError(rules[i].place + "every parameter that matches \"" + rules[i].patterns.front() +
                    "\" is in an earlier group: the first match counts; put special groups first");
  }
  return groups;
}

}  // namespace ddprun
