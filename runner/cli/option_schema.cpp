// SPDX-License-Identifier: MIT
#include "cli/option_schema.h"

#include "config/yaml_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kScalars = {"int", "float", "bool", "string", "path"};
constexpr std::string_view kListOf = "list of ", kMapOf = "map of ", kOr = " | ";

bool is_scalar(std::string_view type) { return std::ranges::find(kScalars, type) != kScalars.end(); }

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (size_t end = 0; end != text.npos; text.remove_prefix(std::min(text.size(), end + separator.size()))) {
    end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
  }
  return parts;
}

// Returns a number, bool or null where YAML reads the text as one, else the text.
Json plain_json(const std::string& text) {
  const auto parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_number() || parsed.is_boolean() || parsed.is_null() ? parsed : Json(text);
}

std::optional<Json> number(const std::string& text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  const auto parsed = plain_json(text);
  return parsed.is_number() ? parsed : Json(value);
}

// Adds ">= 1", "<= 5" or "0 .. 1" to the schema of a number.
void add_range(Json& schema, const std::string& range) {
  const auto set = [&](const char* key, const std::string& text) {
    if (const auto limit = number(text)) schema[key] = *limit;
  };
  if (range.starts_with(">= ")) return set("minimum", range.substr(3));
  if (range.starts_with("<= ")) return set("maximum", range.substr(3));
  const auto ends = split(range, " .. ");
  if (ends.size() != 2) return;
  set("minimum", ends[0]);
  set("maximum", ends[1]);
}

// A text is a reference where another type is expected; `pattern` says nothing about other types.
Json or_reference(const char* type) {
  return {{"type", Json::array({type, "string"})}, {"pattern", kReferencePattern}};
}

Json scalar_schema(std::string_view type, const std::string& range) {
  if (type == "string" || type == "path") return {{"type", {"string", "number", "boolean"}}};  // any plain text
  if (type == "bool") return or_reference("boolean");
  auto schema = or_reference(type == "int" ? "integer" : "number");
  add_range(schema, range);
  return schema;
}

Json words_schema(const std::vector<std::string>& words) {
  auto known = Json::array();
  for (const auto& word : words) {
    known.push_back(word);
    if (const auto plain = plain_json(word); !plain.is_string()) known.push_back(plain);
  }
  return {{"anyOf", {{{"enum", known}}, {{"type", "string"}, {"pattern", kReferencePattern}}}}};
}

// Returns the schema of "{parameters, lr, weight_decay}".
Json keys_schema(std::string_view text) {
  auto properties = Json::object();
  for (const auto& key : split(text.substr(1, text.size() - 2), ", ")) properties[key] = Json::object();
  auto schema = or_reference("object");
  schema["properties"] = properties;
  schema["additionalProperties"] = false;
  return schema;
}

Json alternatives_schema(const std::vector<std::string>& parts, const std::string& range) {
  const auto is_type = [](const std::string& part) { return is_scalar(part) || part.starts_with(kListOf); };
  if (std::ranges::none_of(parts, is_type)) return words_schema(parts);
  auto any = Json::array();
  for (const auto& part : parts) any.push_back(type_schema(part, range));
  return {{"anyOf", any}};
}

Json default_json(std::string_view type, const std::string& text) {
  if (type == "string" || type == "path") return text;
  if (!type.starts_with(kListOf)) return plain_json(text);
  Problems unreadable;
  const auto list = parse_yaml(text, "", unreadable);
  if (!list || !list->is_list() || !unreadable.empty()) return nullptr;
  auto items = Json::array();
  for (const auto& item : list->items()) items.push_back(default_json(type.substr(kListOf.size()), item.text()));
  return items;
}

}  // namespace

Json type_schema(std::string_view type, const std::string& range) {
  if (is_scalar(type)) return scalar_schema(type, range);
  if (type.starts_with(kMapOf)) {
    auto schema = or_reference("object");
    schema["additionalProperties"] = type_schema(type.substr(kMapOf.size()), range);
    return schema;
  }
  if (type.find(kOr) != type.npos) return alternatives_schema(split(type, kOr), range);
  if (type.starts_with("{") && type.ends_with("}")) return keys_schema(type);
  if (type.starts_with(kListOf)) {
    const auto item = type.substr(kListOf.size());
    auto schema = or_reference("array");
    if (item == "path") schema = {{"type", {"array", "string"}}};  // one alone may stand without brackets
    schema["items"] = type_schema(item, range);
    return schema;
  }
  return Json::object();
}

Json option_schema(const OptionDeclaration& option) {
  auto schema = type_schema(option.type, option.range);
  schema["description"] = option.help;
  if (option.fallback.empty()) return schema;
  auto fallback = default_json(option.type, option.fallback);
  if (option.type == "list of float" && fallback.is_array() && fallback.size() == 1)
    schema["type"] = {"array", "number", "string"};  // where one number is the default, one may stand without brackets
  if (!fallback.is_null()) schema["default"] = std::move(fallback);
  return schema;
}

}  // namespace ddprun
