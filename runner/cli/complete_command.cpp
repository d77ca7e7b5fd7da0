// SPDX-License-Identifier: MIT
// `ddprun complete`, which the build calls: prints what shells complete from, a line "scope<TAB>text<TAB>help" for each
// thing that may be typed (tools/completion/ddprun.bash has the scopes); --with-schema also writes the JSON Schema that
// `ddprun schema` then shows without loading the plugins. `ddprun complete --helps` prints what each
// command answers to --help, for the manual pages.
#include "cli/commands.h"
#include "cli/json_schema.h"
#include "command_line/commands.h"
#include "command_line/plain_commands.h"
#include "command_line/shipped_schema.h"
#include "config/compose.h"
#include "config/config_files.h"
#include "config/defaults_list.h"
#include "launch/worker_process.h"

#include <ddprun/error.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <sstream>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

void print(const std::string& scope, const std::string& text, std::string help = "") {
  std::ranges::replace_if(help, [](unsigned char byte) { return byte < 0x20; }, ' ');
  std::cout << scope << "\t" << text << "\t" << help << "\n";
}

// Prints what the option's value may be: its words, for CLI11's "SPLIT:{train,val,test}"; @SCOPE stands for others.
void print_values(const std::string& scope, std::string type) {
  const auto kind = type.substr(0, type.find_first_of(":."));
  const auto open = type.find(":{");
  if (open == type.npos) return print(scope, "@" + kind);
  std::istringstream words(type.substr(open + 2, type.rfind('}') - open - 2));
  for (std::string word; std::getline(words, word, ',');) print(scope, word);
}

void print_option(const CLI::Option& option, const std::string& command) {
  if (option.get_positional()) return print("arguments" + command, option.get_name(true));
  auto names = option.get_snames();
  for (auto& name : names) name.insert(0, "-");
  for (const auto& name : option.get_lnames()) {
    names.push_back("--" + name);
    print("options" + command, names.back(), option.get_description());
  }
  const bool takes_value = option.get_type_size() > 0 && !option.get_type_name().empty();
  for (const auto& name : names)
    if (takes_value) print_values("value" + command + " " + name, option.get_type_name());
}

// Prints the options, arguments and commands of a command; `name` is " plugins show", or empty for ddprun itself.
void print_command(const CLI::App& app, const std::string& name) {
  for (const auto* option : app.get_options()) print_option(*option, name);
  for (const auto* part : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); })) {
    print("commands" + name, part->get_name(), part->get_description());
    print_command(*part, name + " " + part->get_name());
  }
}

// Calls visit(part) for the schema and for what it is made of.
template <class Visit>
void for_each_part(const Json& schema, Visit&& visit) {
  if (!schema.is_object()) return;
  visit(schema);
  for (const auto* key : {"anyOf", "oneOf"})
    for (const auto& part : schema.value(key, Json::array())) for_each_part(part, visit);
}

std::string as_typed(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// Prints the values that a schema names: words, true and false, the default.
void print_named_values(const std::string& scope, const Json& schema) {
  bool any = false;
  for_each_part(schema, [&](const Json& part) {
    const auto helps = part.value("enumDescriptions", Json::array());
    for (size_t i = 0; i < part.value("enum", Json::array()).size(); ++i, any = true)
      print(scope, as_typed(part.at("enum")[i]), i < helps.size() ? as_typed(helps[i]) : "");
    const auto type = part.value("type", Json());
    if (!type.is_array() || type.front() != "boolean") return;
    for (const auto* word : {"true", "false"}) print(scope, word);
    any = true;
  });
  const auto text = as_typed(schema.value("default", Json("")));
  if (!any && !text.empty()) print(scope, text, "the default");
}

void print_keys(const std::string& section, const Json& keys) {
  for (const auto& [key, schema] : keys.items()) {
    std::string help;  // of one of the forms that it may have
    for_each_part(schema, [&](const Json& part) { help = help.empty() ? part.value("description", "") : help; });
    print("keys " + section, key, help);
    print_named_values("values " + section + "." + key, schema);
  }
}

// Prints a key of the root, which may be a section, and the keys below it: of each plugin if it chooses one.
void print_root_key(const std::string& key, const Json& schema, bool has_files) {
  const auto help = schema.value("description", "");
  const bool lists = is_list_of_plugins(key), chooses = has_short_form(key);
  const bool plain = !chooses && !schema.contains("properties");
  print("roots", key, help);
  if (key == "defaults") return;
  if (!plain && !lists) print("sections", key + ".", help);
  if (plain || chooses || has_files) print("keys", key + "=", help);
  if (!plain) print("groups", group_of_key(key));
  if (!plain && !chooses) return print_keys(key, schema["properties"]);
  print_named_values("values " + key, lists ? schema["anyOf"].back() : schema);
  if (plain || lists) return;
  const std::string selector(selector_of(key));
  for_each_part(schema, [&](const Json& part) {
    const auto keys = part.value("properties", Json::object());
    if (keys.contains(selector) && keys[selector].contains("const"))
      print_keys(key + ":" + as_typed(keys[selector]["const"]), keys);
  });
}

// Prints which plugin each section has with this override, as "model:mlp".
void print_choices(const std::string& scope, const std::string& experiment, const Words& overrides) {
  const auto config = compose({.experiment = experiment, .overrides = overrides, .search_path = config_search_path()});
  for (const auto& [section, origin, value] : config.entries()) {
    const auto* chosen = value.is_map() ? value.find(selector_of(section)) : nullptr;
    const bool asked = overrides.empty() || overrides.front().starts_with(section + "=");
    if (chosen && asked && has_short_form(section)) print(scope, section + ":" + chosen->text());
  }
}

// Prints the files of the groups, "optimizer/adamw", and what each chooses.
void print_files(const Words& files) {
  std::string experiment;  // one in which those of other groups can be chosen
  for (const auto& file : files)
    if (file.starts_with("experiments/")) experiment = file;
  for (const auto& file : files) {
    const auto group = file.substr(0, file.find('/')), name = file.substr(group.size() + 1), key = key_of_group(group);
    if (!key.empty()) print("files " + key, name);
    if (key.empty()) print("experiments", file + ".yaml");
    print_choices(file, key.empty() ? file : experiment, key.empty() ? Words() : Words{key + "=" + name});
  }
}

// Prints what each command answers to --help, after its name and a form feed: cmake/man_pages makes pages of it.
void print_helps() {
  Arguments unused;
  const auto app = command_line(unused);
  for (const auto* part : app->get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
    std::cout << "\f" << part->get_name() << "\n" << part->help("ddprun");
}

}  // namespace

int complete(const Words& words) {
  if (words == Words{"--helps"}) {
    print_helps();
    return kExitDone;
  }
  Arguments unused;
  print_command(*command_line(unused), "");
  const auto sources = schema_sources({});
  const auto has_files = [&](const std::string& key) {
    return std::ranges::any_of(sources.group_files,
                               [&](const std::string& file) { return file.starts_with(group_of_key(key) + "/"); });
  };
  const auto whole = experiment_schema(sources);
  for (const auto& [key, schema] : whole.at("properties").items()) print_root_key(key, schema, has_files(key));
  print_files(sources.group_files);
  for (const auto& page : documentation_pages()) print("pages", page);
  if (words == Words{"--with-schema"}) write_shipped_schema(schema_text(whole));
  return kExitDone;
}

}  // namespace ddprun
