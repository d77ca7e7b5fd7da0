// SPDX-License-Identifier: MIT
// `ddprun complete WORD...`, with the plugins that DDPRUN_PLUGIN_PATH brings, and `ddprun complete --describe FILE`,
// from which libexec/ddprun-complete answers otherwise.
#include "base/log.h"
#include "cli/commands.h"
#include "cli/json_schema.h"
#include "completion/completion.h"
#include "launch/worker_process.h"

#include <ddprun/files.h>

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <iostream>
#include <sstream>

namespace ddprun {
namespace {

// Returns "train", "val", "test" for CLI11's "SPLIT:{train,val,test}".
std::vector<std::string> choices_in(const std::string& type) {
  std::vector<std::string> choices;
  const auto open = type.find(":{");
  if (open == type.npos) return choices;
  std::istringstream words(type.substr(open + 2, type.rfind('}') - open - 2));
  for (std::string word; std::getline(words, word, ',');) choices.push_back(word);
  return choices;
}

void describe_option(const CLI::Option& option, Description& command) {
  if (option.get_positional()) {
    command["arguments"].push_back(option.get_name(true));
    return;
  }
  auto names = Description::array();
  for (const auto& name : option.get_lnames()) names.push_back("--" + name);
  for (const auto& name : option.get_snames()) names.push_back("-" + name);
  const auto type = option.get_type_size() == 0 ? "" : option.get_type_name();
  command["options"].push_back({{"names", names},
                                {"value", type.substr(0, type.find(':'))},
                                {"choices", choices_in(type)},
                                {"help", option.get_description()}});
}

Description described(const CLI::App& app) {
  Description command{{"name", app.get_name()},
                      {"help", app.get_description()},
                      {"options", Description::array()},
                      {"arguments", Description::array()},
                      {"commands", Description::array()}};
  for (const auto* option : app.get_options()) describe_option(*option, command);
  for (const auto* part : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
    command["commands"].push_back(described(*part));
  return command;
}

Description description_of_commands() {
  Arguments unused;
  return described(*command_line(unused));
}

// Prints what each command answers to --help, after its name and a form feed: cmake/man_pages makes pages of it.
void print_helps() {
  Arguments unused;
  const auto app = command_line(unused);
  for (const auto* part : app->get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
    std::cout << "\f" << part->get_name() << "\n" << part->help("ddprun");
}

}  // namespace

int complete_line(const std::vector<std::string>& words) try {
  if (words == std::vector<std::string>{"--helps"}) {
    print_helps();
    return kExitDone;
  }
  ::setenv(log::kLevelVariable, "quiet", /*overwrite=*/1);
  const bool describe = words.size() == 2 && words[0] == "--describe";
  auto description = description_of_commands();
  description["schema"] = experiment_schema(schema_sources({}));
  if (describe) {
    replace_file(words[1], description.dump() + "\n");
  } else {
    for (const auto& [text, help] : complete(words, description)) std::cout << text << "\t" << help << "\n";
  }
  return kExitDone;
} catch (const std::exception&) {  // somebody is typing: a mistake in a file is none of the moment's
  return kExitFailed;
}

}  // namespace ddprun
