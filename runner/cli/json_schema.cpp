// SPDX-License-Identifier: MIT
#include "cli/json_schema.h"

#include "cli/option_schema.h"
#include "config/defaults_list.h"
#include "config/experiment_reader.h"
#include "config/schema.h"
#include "metrics/measured_objective.h"
#include "metrics/objective.h"

#include <ddprun/error.h>
#include <ddprun/version.h>

#include <algorithm>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFilePattern = R"(/|\.so$|\$\{)";  // the path of a plugin, or a reference

// One of the plugins, schedules or objectives that a section may name, with its options.
struct Choice {
  std::string name, help;
  std::vector<OptionDeclaration> options;
  bool complete = true;  // all options are known
};

class SchemaWriter {
 public:
  // In a file of a group a section stands alone: not in its short form, and with `defaults`.
  SchemaWriter(const SchemaSources& sources, bool in_group) : sources_(sources), in_group_(in_group) {}

  Json experiment() const {
    auto properties = Json::object();
    for (const auto& key : section("").keys) properties[key.name] = root_key(key);
    return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  }

  // Returns the schema of a key of the root, which may be a section.
  Json root_key(const OptionDeclaration& key) const {
    auto schema = value_of(key);
    schema["description"] = key.help;
    return schema;
  }

  const OptionDeclaration* root_key_named(const std::string& name) const {
    const auto& keys = section("").keys;
    const auto at = std::ranges::find(keys, name, &OptionDeclaration::name);
    return at == keys.end() || is_plain(*at) ? nullptr : &*at;
  }

  // Returns the sections of an experiment as groups: "model", "logger", ...
  std::vector<std::string> groups() const {
    std::vector<std::string> names;
    for (const auto& key : section("").keys)
      if (!is_plain(key)) names.push_back(group_of_key(key.name));
    return names;
  }

 private:
  static bool is_plain(const OptionDeclaration& key) {
    return key.name == "defaults" || key.name == "plugin_path" || key.type == "string" || key.type == "int";
  }

  const SectionHelp& section(const std::string& name) const {
    return *std::ranges::find(sections_, name, &SectionHelp::name);
  }

  Json value_of(const OptionDeclaration& key) const {
    if (key.name == "defaults") return defaults();
    if (key.name == "plugin_path") return {{"anyOf", {type_schema("string", ""), type_schema(key.type, "")}}};
    if (is_plain(key)) return option_schema(key);
    if (is_list_of_plugins(key.name)) return list_of_plugins(group_of_key(key.name));
    if (has_short_form(key.name)) return chosen(key.name, choices_of(key.name), /*may_merge=*/true);
    return plain_section(section(key.name));
  }

  Json defaults() const {
    const Json map{{"type", "object"}, {"minProperties", 1}, {"maxProperties", 1}};
    auto names = Json::array();
    names.push_back({{"type", "string"}, {"not", {{"pattern", "^_self_$|\\.\\."}}}});
    if (!sources_.group_files.empty()) names.push_back({{"enum", sources_.group_files}});
    names.push_back(map);
    return {{"type", "array"}, {"items", {{"anyOf", names}}}};
  }

  // Adds what every section may have.
  void add_common(Json& properties) const {
    if (in_group_) properties["defaults"] = defaults();
  }

  Json plain_section(const SectionHelp& help) const {
    auto properties = Json::object();
    for (const auto& key : help.keys) properties[key.name] = option_schema(key);
    if (help.name == "early_stopping") properties["target"]["type"].push_back("null");  // removes that of another file
    add_common(properties);
    Json schema{{"type", {"object"}}};
    if (!in_group_) {
      schema["type"] = {"object", "null", "string"};
      schema["pattern"] = kReferencePattern;
    }
    schema["properties"] = properties;
    schema["additionalProperties"] = false;
    return schema;
  }

  std::vector<Choice> choices_of(const std::string& kind) const {
    std::vector<Choice> choices;
    const auto add = [&](std::vector<SectionHelp> kinds) {
      for (auto& [name, help, keys] : kinds) {
        std::erase_if(keys, [](const OptionDeclaration& key) { return key.name == "name"; });
        choices.push_back({.name = name, .help = help, .options = keys});
      }
    };
    if (kind == "schedule") add(schedule_kinds());
    if (kind == "objective") add(objective_kinds());
    for (const auto& [info, options, problem, refused] : sources_.plugins) {
      if (info.kind != kind) continue;
      choices.push_back({.name = info.name, .help = info.help, .options = options, .complete = problem.empty()});
      auto& keys = choices.back().options;
      if (kind == "dataset") std::ranges::copy(section(kind).keys, std::back_inserter(keys));
      const bool measures = std::ranges::find(keys, "metrics", &OptionDeclaration::name) != keys.end();
      if (kind == "objective" && !measures) keys.push_back(measured_metrics());
    }
    return choices;
  }

  // Returns the schema of a section that names one of the choices, {plugin: mlp, hidden: 5}. If it may be merged with
  // another file's it need not name one: it then has options of any.
  Json chosen(const std::string& key, const std::vector<Choice>& choices, bool may_merge) const {
    const std::string selector(selector_of(key));
    auto alternatives = Json::array();
    if (!in_group_ || !may_merge) alternatives.push_back(short_form(choices));
    for (const auto& choice : choices) alternatives.push_back(with_options(key, choice));
    if (may_merge) alternatives.push_back(of_any(key, choices));
    const Json file{{"type", "string"}, {"pattern", kFilePattern}};
    if (key != "schedule") {
      alternatives.push_back(
          {{"type", "object"}, {"title", "by its file"}, {"properties", {{selector, file}}}, {"required", {selector}}});
    }
    return {{"oneOf", alternatives}};
  }

  static Json short_form(const std::vector<Choice>& choices) {
    auto names = Json::array(), helps = Json::array();
    for (const auto& choice : choices) {
      names.push_back(choice.name);
      helps.push_back(choice.help);
    }
    auto any = Json::array();
    if (!names.empty()) any.push_back(Json{{"enum", names}, {"enumDescriptions", helps}});
    any.push_back(Json{{"pattern", kFilePattern}});
    return {{"type", "string"}, {"anyOf", any}};
  }

  Json with_options(const std::string& key, const Choice& choice) const {
    const std::string selector(selector_of(key));
    Json properties{{selector, {{"const", choice.name}, {"description", choice.help}}}};
    for (const auto& option : choice.options) properties[option.name] = option_schema(option);
    add_common(properties);
    Json schema{{"type", "object"}, {"title", choice.name}, {"properties", properties}, {"required", {selector}}};
    if (choice.complete) schema["additionalProperties"] = false;
    return schema;
  }

  Json of_any(const std::string& key, const std::vector<Choice>& choices) const {
    const std::string selector(selector_of(key));
    Json properties{{selector, false}};
    for (const auto& choice : choices) {
      for (const auto& option : choice.options) {
        auto& known = properties[option.name]["anyOf"];
        auto schema = option_schema(option);
        schema["description"] = choice.name + ": " + option.help;
        if (std::ranges::find(known, schema) == known.end()) known.push_back(std::move(schema));
      }
    }
    add_common(properties);
    return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  }

  Json list_of_plugins(const std::string& kind) const {
    const auto one = chosen(kind, choices_of(kind), /*may_merge=*/false);
    return {{"anyOf", {{{"type", "array"}, {"items", one}}, one}}};
  }

  const SchemaSources& sources_;
  bool in_group_;
  std::vector<SectionHelp> sections_ = experiment_keys();
};

Json with_head(const std::string& title, Json schema) {
  Json whole{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
             {"title", title},
             {"$comment", "written by `ddprun schema` of ddprun " DDPRUN_VERSION}};
  whole.update(schema);
  return whole;
}

}  // namespace

Json experiment_schema(const SchemaSources& sources) {
  return with_head("an experiment of ddprun", SchemaWriter(sources, /*in_group=*/false).experiment());
}

Json group_schema(const std::string& group, const SchemaSources& sources) {
  if (group == "experiments") return experiment_schema(sources);
  const SchemaWriter writer(sources, /*in_group=*/true);
  const auto* key = writer.root_key_named(key_of_group(group));
  if (key) return with_head("a file of the group " + group + " of ddprun", writer.root_key(*key));
  std::string known;
  for (const auto& name : writer.groups()) known += (known.empty() ? "" : ", ") + name;
  const auto near = nearest_name(group, writer.groups());
  throw UserError("--group " + group + ": there is no such group; " +
                  (near.empty() ? "" : "did you mean " + near + "? ") + "known: " + known);
}

std::string schema_text(const nlohmann::ordered_json& schema) {
  return schema.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun
