// SPDX-License-Identifier: MIT
#include "command_line/shipped_schema.h"

#include "base/on_demand.h"
#include "base/run_files.h"

#include <ddprun/files.h>

#include <cstdlib>
#include <filesystem>
#include <set>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

fs::path schema_file() { return own_prefix() / "share/ddprun/schema.json"; }

// What the schema is of: each plugin with its size, and the name of each file of a group.
fs::path contents_file() { return own_prefix() / "share/ddprun/schema.of"; }

std::string contents() {
  std::set<std::string> lines;
  for (const auto* folder : {"lib/ddprun/plugins", "share/ddprun/configs"}) {
    std::error_code error;
    const auto root = own_prefix() / folder;
    for (fs::recursive_directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
      const auto name = at->path().lexically_relative(own_prefix()).string();
      if (name.ends_with(".so")) lines.insert(name + " " + std::to_string(fs::file_size(at->path(), error)));
      if (name.ends_with(".yaml")) lines.insert(name);
    }
  }
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  return text;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value;
}

}  // namespace

std::optional<std::string> shipped_schema() {
  std::error_code error;
  if (is_set("DDPRUN_PLUGIN_PATH") || is_set("DDPRUN_CONFIG_PATH") || !fs::exists(contents_file(), error))
    return std::nullopt;
  if (content_of(contents_file()) != contents()) return std::nullopt;
  return content_of(schema_file());
}

void write_shipped_schema(const std::string& text) {
  replace_file(schema_file(), text);
  replace_file(contents_file(), contents());
}

}  // namespace ddprun
