// SPDX-License-Identifier: MIT
// Describes experiment files as JSON Schema 2020-12, from the declarations that also read them, so that editors know
// the keys of the experiment, the plugins, and the options of each.
//
// One file is described, not the whole that it composes to: what is required may stand in another one, or on the
// command line. Values that cannot be right in any file are refused, and so are unknown keys.
#pragma once

#include "plugin_host/plugin_host.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

struct SchemaSources {
  std::vector<PluginDescription> plugins;  // without a flaw
  std::vector<std::string> group_files;    // what `defaults:` may name: "model/convnet"
};

// Loads all plugins found, in these folders too, and warns of those that have a flaw.
SchemaSources schema_sources(const std::vector<std::filesystem::path>& plugin_folders);

// Returns the schema of an experiment.
nlohmann::ordered_json experiment_schema(const SchemaSources& sources);

// Returns the schema of a file of a group: <configs>/model/convnet.yaml is one of the group model. Throws UserError for
// a group that no section of an experiment has.
nlohmann::ordered_json group_schema(const std::string& group, const SchemaSources& sources);

std::string schema_text(const nlohmann::ordered_json& schema);

}  // namespace ddprun
