// SPDX-License-Identifier: MIT
#include "completion/override_words.h"

#include "config/config_files.h"
#include "config/defaults_list.h"
#include "config/key_path.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Json = Description;

// Calls visit(part) for the schema and for what it is made of.
template <class Visit>
void for_each_part(const Json& schema, Visit&& visit) {
  if (!schema.is_object()) return;
  visit(schema);
  for (const auto* key : {"anyOf", "oneOf"})
    if (schema.contains(key))
      for (const auto& part : schema[key]) for_each_part(part, visit);
}

// Returns the help; of one of the plugins, if several have a key of this name.
std::string help_of(const Json& schema) {
  std::string help;
  for_each_part(schema, [&](const Json& part) {
    if (help.empty()) help = part.value("description", "");
  });
  return help;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// Returns the values that a schema names: words, true and false, the default.
std::vector<Candidate> values_of(const Json& schema) {
  std::vector<Candidate> values;
  for_each_part(schema, [&](const Json& part) {
    const auto type = part.value("type", Json());
    if (part.contains("enum")) {
      const auto helps = part.value("enumDescriptions", Json::array());
      for (size_t i = 0; i < part["enum"].size(); ++i)
        values.push_back({text_of(part["enum"][i]), i < helps.size() ? text_of(helps[i]) : ""});
    }
    if (type.is_array() && std::ranges::find(type, "boolean") != type.end() && type.front() == "boolean")
      for (const auto* word : {"true", "false"}) values.push_back({word});
  });
  if (values.empty() && schema.contains("default") && schema["default"] != "")
    values.push_back({text_of(schema["default"]), "the default"});
  return values;
}

// Returns the keys of a section: those of the plugin that it names, or else of all that it may name.
Json keys_of(const Json& section, const Value* written, const std::string& key) {
  if (section.contains("properties")) return section["properties"];
  const std::string selector(selector_of(key));
  const auto* chosen = written && written->is_map() ? written->find(selector) : nullptr;
  auto found = Json::object();
  for_each_part(section, [&](const Json& part) {
    if (!part.contains("properties") || !part["properties"].contains(selector)) return;
    const auto& name = part["properties"][selector];
    const bool of_any = name.is_boolean();
    const bool of_this = chosen && name.is_object() && name.value("const", "") == chosen->text();
    if (of_this || (of_any && found.empty())) found = part["properties"];
  });
  return found;
}

// Returns the files of a group: the names that `model=` takes besides those of plugins.
std::vector<Candidate> files_of_group(const std::string& key) {
  std::set<std::string> names;
  for (const auto& folder : config_search_path()) {
    std::error_code error;
    for (fs::directory_iterator at(folder / group_of_key(key), error), end; !error && at != end; at.increment(error))
      if (at->path().extension() == ".yaml") names.insert(at->path().stem().string());
  }
  std::vector<Candidate> files;
  for (const auto& name : names) files.push_back({name});
  return files;
}

// The keys of the root, and of its sections once a dot is there.
std::vector<Candidate> keys_for(const std::string& word, const Value& experiment, const Json& schema, bool remove) {
  std::vector<Candidate> keys;
  const auto dot = word.find('.');
  const auto section = word.substr(0, dot);
  const auto& root = schema["properties"];
  const std::string end = remove ? "" : "=";
  if (dot != word.npos) {
    if (!root.contains(section)) return {};
    const auto of_section = keys_of(root[section], experiment.find(section), section);
    for (const auto& [key, value] : of_section.items()) keys.push_back({section + "." + key + end, help_of(value)});
    return keys;
  }
  for (const auto& [key, value] : root.items()) {
    if (key == "defaults") continue;
    const bool plain = keys_of(value, nullptr, key).empty();
    if (!plain && !is_list_of_plugins(key)) keys.push_back({key + ".", help_of(value)});
    if (plain || remove || has_short_form(key) || !files_of_group(key).empty())
      keys.push_back({key + end, help_of(value)});
  }
  return keys;
}

std::vector<Candidate> values_for(const std::string& key, const Value& experiment, const Json& schema) {
  const auto& root = schema["properties"];
  const auto path = parse_key_path(key);
  if (!path || !root.contains(path->front())) return {};
  const auto& section = root[path->front()];
  if (path->size() == 2 && path->back() == selector_of(path->front()) && has_short_form(path->front()))
    return plugin_names(path->front(), schema);
  if (path->size() > 1 && !is_list_of_plugins(path->front())) {
    const auto keys = keys_of(section, experiment.find(path->front()), path->front());
    return keys.contains(path->back()) ? values_of(keys[path->back()]) : std::vector<Candidate>();
  }
  const bool chosen = has_short_form(path->front());
  auto values = chosen ? plugin_names(path->front(), schema) : values_of(section);
  for (auto& file : files_of_group(path->front()))
    if (std::ranges::find(values, file.text, &Candidate::text) == values.end()) values.push_back(std::move(file));
  return values;
}

}  // namespace

std::vector<Candidate> plugin_names(const std::string& kind, const Json& schema) {
  std::vector<Candidate> names;
  const auto& root = schema["properties"];
  const auto key = root.contains(kind) ? kind : key_of_group(kind);
  if (!root.contains(key)) return {};
  for_each_part(root[key], [&](const Json& part) {
    if (part.contains("enum") && part.contains("enumDescriptions") && names.empty()) names = values_of(part);
  });
  return names;
}

std::vector<Candidate> complete_override(const std::string& word, const Value& experiment, const Json& schema) {
  const auto sigil = word.substr(0, std::min(word.find_first_not_of("+~"), word.size()));
  const auto rest = word.substr(sigil.size());
  const auto equals = rest.find('=');
  auto candidates = equals == rest.npos ? keys_for(rest, experiment, schema, sigil.starts_with('~'))
                                        : values_for(rest.substr(0, equals), experiment, schema);
  for (auto& candidate : candidates)
    candidate.text = sigil + (equals == rest.npos ? "" : rest.substr(0, equals + 1)) + candidate.text;
  return candidates;
}

}  // namespace ddprun
