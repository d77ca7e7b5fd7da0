// SPDX-License-Identifier: MIT
// Resolves ${secret:NAME} in the options of plugins: to the value of the environment variable NAME, or the content of
// the file that NAME_FILE names, as container platforms provide secrets. It stays a text in the experiment and in
// everything made of it, including the frozen config.yaml. Each process that constructs the plugin looks it up in its
// own environment, and only the plugin gets it.
#pragma once

#include "config/yaml_reader.h"

#include <ddprun/value.h>

#include <string>
#include <string_view>

namespace ddprun {

// Returns true for "DB_PASSWORD", "api_key", "GITHUB_TOKEN"; not for "token_file", which names a file with one.
bool names_a_secret(std::string_view name);

// Returns true for "https://user:password@host"; not for "https://user:${secret:NAME}@host".
bool holds_password(std::string_view value);

// Returns "${secret:NAME}" for the text after the colon. Throws BadReference if that is not a variable's name.
std::string secret_reference(const std::string& name);

// Notes each ${secret:} outside the options of a plugin: the rest of an experiment becomes names of folders, rows and
// messages.
void check_secrets(const Value& config, Problems& problems);

// Returns a plugin's options with the secrets inserted, to be passed to its constructor and dropped. From then on
// messages show the secrets as references. Throws UserError, with the place of each, if some are missing. `path`:
// "loggers[1]".
Value with_secrets(Value options, const std::string& path);

}  // namespace ddprun
