// SPDX-License-Identifier: MIT
// ${secret:NAME} in the options of plugins: the value of the environment variable NAME, or what is in the file that
// NAME_FILE names, as container platforms hand secrets out. It stays a text in the experiment and in all that is made
// of it, the frozen config.yaml too. Each process that makes the plugin looks it up in its own environment, and nobody
// but the plugin gets it.
#pragma once

#include "config/yaml_reader.h"

#include <ddprun/value.h>

#include <string>
#include <string_view>

namespace ddprun {

// "DB_PASSWORD", "api_key", "GITHUB_TOKEN"; not "token_file", which says where one is.
bool names_a_secret(std::string_view name);

// "https://user:password@host"; not "https://user:${secret:NAME}@host".
bool holds_password(std::string_view value);

// "${secret:NAME}" of what stands behind the colon. Throws BadReference where that is no variable's name.
std::string secret_reference(const std::string& name);

// Notes each ${secret:} that is not in the options of a plugin: what else an experiment says becomes names of folders,
// rows and messages.
void check_secrets(const Value& config, Problems& problems);

// A plugin's options with the secrets in their places, to be handed to its constructor and dropped. Messages show them
// as they are written from then on. Throws UserError, with the place of each, where some are missing. `path`:
// "loggers[1]".
Value with_secrets(Value options, const std::string& path);

}  // namespace ddprun
