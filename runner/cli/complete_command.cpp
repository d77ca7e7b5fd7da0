// SPDX-License-Identifier: MIT
// `ddprun complete`, which the build calls: prints what shells complete from, a line "scope<TAB>word" for each word
// that may be typed (tools/completion/ddprun.bash says what the scopes are); --with-schema also writes the JSON Schema
// that `ddprun schema` then shows without loading the plugins. `ddprun complete --helps` prints what each command
// answers to --help, for the manual pages.
#include "cli/commands.h"
#include "cli/json_schema.h"
#include "command_line/commands.h"
#include "command_line/plain_commands.h"
#include "command_line/shipped_schema.h"
#include "config/compose.h"
#include "config/config_files.h"
#include "config/defaults_list.h"
#include "launch/worker_process.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <sstream>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

void print(const std::string& scope, const std::string& word) { std::cout << scope << "\t" << word << "\n"; }

// Prints the words that an option's value may be, of CLI11's "SPLIT:{train,val,test}", or else @SPLIT.
void print_values(const std::string& scope, const std::string& type) {
  const auto open = type.find(":{");
  if (open == type.npos) return print(scope, "@" + type.substr(0, type.find_first_of(":.")));
  std::istringstream words(type.substr(open + 2, type.rfind('}') - open - 2));
  for (std::string word; std::getline(words, word, ',');) print(scope, word);
}

void print_option(const std::string& command, const CLI::Option& option) {
  const bool takes_value = option.get_type_size() > 0 && !option.get_type_name().empty();
  for (const auto& name : option.get_lnames()) {
    print(command, "--" + name);
    if (takes_value) print_values(command + " --" + name, option.get_type_name());
  }
  for (const auto& name : option.get_snames())
    if (takes_value) print_values(command + " -" + name, option.get_type_name());
}

// Prints the options and arguments of a command, and its own commands. Where a scope is called as the argument, "@run",
// its words are meant.
void print_command(const std::string& command, const CLI::App& app) {
  bool first = true;
  for (const auto* option : app.get_options()) {
    if (!option->get_positional()) {
      print_option(command, *option);
      continue;
    }
    const auto name = "@" + option->get_name(true);
    const bool repeats = option->get_expected_max() > 1;
    if (first) print(command + " <first>", name);
    if (!first || repeats) print(command + " <rest>", name);
    if (name == "@checkpoint" && repeats) print(command + " <rest>", "@overrides");
    first = false;
  }
  for (const auto* part : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); })) {
    print(command + " <first>", part->get_name());
    print_command(command + " " + part->get_name(), *part);
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

// Returns the values that a schema names: words, true and false, or else the default, if that is one word.
Words values_of(const Json& schema) {
  Words values;
  for_each_part(schema, [&](const Json& part) {
    for (const auto& value : part.value("enum", Json::array())) values.push_back(as_typed(value));
    const auto type = part.value("type", Json());
    if (type.is_array() && type.front() == "boolean") values.insert(values.end(), {"true", "false"});
  });
  const auto usual = as_typed(schema.value("default", Json("")));
  const bool is_one_word = std::ranges::all_of(usual, [](unsigned char byte) { return byte > ' '; });
  if (values.empty() && is_one_word && !usual.empty()) values.push_back(usual);
  return values;
}

void print_key(const std::string& scope, const std::string& key, const Json& schema) {
  print(scope, key + "=");
  for (const auto& value : values_of(schema)) print(scope, key + "=" + value);
}

void print_keys(const std::string& scope, const std::string& section, const Json& keys) {
  for (const auto& [key, schema] : keys.items()) print_key(scope, section + "." + key, schema);
}

// Prints a key of the root, which may be a section, and the keys below it: of each plugin if it chooses one.
void print_root_key(const std::string& key, const Json& schema) {
  const bool lists = is_list_of_plugins(key), chooses = has_short_form(key);
  const bool has_keys = schema.contains("properties");
  print("@word", key);
  if (key == "defaults") return;
  if (chooses || has_keys) print("@GROUP", group_of_key(key));
  if ((chooses && !lists) || has_keys) print(":", key + ".");
  if (!chooses && has_keys) return print_keys(":", key, schema["properties"]);
  const auto& named = lists ? schema["anyOf"].back() : schema;
  print_key(":", key, named);
  if (!chooses) return;
  const std::string selector(selector_of(key));
  if (selector == "plugin")
    for (const auto& plugin : values_of(named)) print("@plugin", plugin);
  if (lists) return;
  print_key(":", key + "." + selector, named);
  for_each_part(schema, [&](const Json& part) {
    const auto keys = part.value("properties", Json::object());
    if (!keys.contains(selector) || !keys[selector].contains("const")) return;
    for (const auto& chosen : {as_typed(keys[selector]["const"]), std::string()})
      print_keys(key + ":" + chosen, key, keys);
  });
}

// Prints the files of the groups, as overrides choose them, and the experiments with the plugins that they choose.
void print_file(const std::string& file) {
  const auto group = file.substr(0, file.find('/')), key = key_of_group(group);
  if (!key.empty()) return print(":", key + "=" + file.substr(group.size() + 1));
  print("@experiment", file + ".yaml");
  const auto config = compose({.experiment = file, .search_path = config_search_path()});
  for (const auto& [section, origin, value] : config.entries()) {
    const auto* chosen = value.is_map() ? value.find(selector_of(section)) : nullptr;
    if (chosen && has_short_form(section)) print(file, section + "/" + chosen->text());
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
  const auto sources = schema_sources({});
  const auto whole = experiment_schema(sources);
  for (const auto& [key, schema] : whole.at("properties").items()) print_root_key(key, schema);
  for (const auto& file : sources.group_files) print_file(file);
  for (const auto& page : documentation_pages()) print("@page", page);
  for (const auto* argument : {"@run", "@runs"}) print(argument, "outputs/*/*");
  for (const auto* name : {"best", "last"}) print("@checkpoint", name);
  Arguments unused;
  const auto app = command_line(unused);
  print_command("ddprun", *app);
  print_command("ddprun", *app->get_subcommand("run"));  // the word `run` is optional
  if (words == Words{"--with-schema"}) write_shipped_schema(schema_text(whole));
  return kExitDone;
}

}  // namespace ddprun
