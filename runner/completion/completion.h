// SPDX-License-Identifier: MIT
// Says how a command line of ddprun may go on: for shells, by tools/completion.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace ddprun {

struct Candidate {
  std::string text;       // the whole last word
  std::string help = {};  // a line; may be empty
};

// What ddprun says of itself (share/ddprun/completion.json, `ddprun complete --describe FILE`):
//
//   options, arguments, commands   [{names, value, choices, help}], ["experiment", "overrides"], [{name, help, options,
//                                  arguments, commands}]: of ddprun itself, and within of each command
//   schema                         of an experiment, as `ddprun schema` writes it
using Description = nlohmann::ordered_json;

// Returns what the last of the words may become, the words after `ddprun`; it may be empty. Never throws for what is
// wrong on the line or in a file: nothing then goes on.
std::vector<Candidate> complete(const std::vector<std::string>& words, const Description& description);

// Returns whether the last word may become a plugin's name, its option or a value: those in DDPRUN_PLUGIN_PATH are then
// loaded to know them. Never those of a `plugin_path:`, for the file that has it is only read by who presses Tab, and
// may be anybody's.
bool may_name_plugin(const std::vector<std::string>& words, const Description& description);

}  // namespace ddprun
