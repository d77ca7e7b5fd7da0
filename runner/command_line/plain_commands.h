// SPDX-License-Identifier: MIT
// The commands that need no LibTorch: bin/ddprun runs them itself, in a hundredth of a second.
#pragma once

#include "command_line/arguments.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

bool is_plain_command(std::string_view name);

// Returns the exit code, or nothing if this command, or what it is asked for, needs LibTorch. Throws UserError for
// mistakes of the user.
std::optional<int> run_plain_command(const Arguments& arguments);

int list(const Arguments& arguments);
int report(const Arguments& arguments);
int list_experiments(const Arguments& arguments);
int env(const Arguments& arguments);
int show_docs(const Arguments& arguments);
std::vector<std::string> documentation_pages();  // their names

int print_schema(const Arguments& arguments, const std::string& schema);  // `schema`, once that is known

}  // namespace ddprun
