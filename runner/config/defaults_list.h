// SPDX-License-Identifier: MIT
// Composes an experiment from the files that its `defaults:` lists; compose.h has the rules.
#pragma once

#include "config/config_files.h"

#include <ddprun/value.h>

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

class DefaultsComposer {
 public:
  DefaultsComposer(ConfigFiles files, Problems& problems) : files_(std::move(files)), problems_(problems) {}

  // Returns the experiment with its defaults below it. Notes mistakes in `problems`.
  Value compose_experiment(const std::filesystem::path& file);

  // Returns "optimizer/adam" with its own defaults, as a tree from the root: {optimizer: {...}}. `origin` asked for it.
  Value compose_group(const std::string& entry, const Origin& origin);

  const ConfigFiles& files() const { return files_; }

  // Returns whether a part is missing, so that mistakes in the rest may be false alarms.
  bool incomplete() const { return incomplete_; }

 private:
  Value compose_file(const std::filesystem::path& file, const std::string& group, const Origin& asked_at);
  void merge_defaults(Value& tree, const Value& defaults, const std::string& group);
  std::string entry_name(const Value& entry, const std::string& group);
  bool is_right_kind(const Value& content, const std::string& group, const std::filesystem::path& file);
  void fail(const Origin& origin, std::string_view name, std::string_view text);

  ConfigFiles files_;
  Problems& problems_;
  std::vector<std::filesystem::path> open_;  // the files being composed, outermost first
  size_t files_read_ = 0;
  bool incomplete_ = false;
};

// The keys of an experiment whose values are lists of plugins; a group's name is one of them without its last letter.
inline constexpr std::array<std::string_view, 2> kListsOfPlugins = {"loggers", "callbacks"};
bool is_list_of_plugins(std::string_view key);

// Returns the key that a group's files go below: its own name, "loggers" for logger, none ("") for experiments.
std::string key_of_group(const std::string& group);
std::string group_of_key(const std::string& key);

// Puts `over` on top of `base`. Maps merge key by key; anything else replaces what was there: a list replaces the whole
// list, null the whole section.
//
// A map that names another `plugin` (in objective: another `name`) than the one below replaces it whole: the options of
// a convnet mean nothing to an mlp, and must not linger to be refused by it.
void merge(Value& base, Value over, std::string_view key = "");

// Returns the key that chooses the plugin in the map below this key: "name" for objective, "plugin" for all others.
std::string_view selector_of(std::string_view key);

// Expands the short forms in place: `model: mlp` is {plugin: mlp}, as are dataset, optimizer and each entry of loggers
// and callbacks; `objective: mse` is {name: mse}; a lone logger, callback or plugin_path is a list of one.
void expand_short_forms(Value& root);

// Returns whether the section's text form names a plugin or an objective.
bool has_short_form(std::string_view section);

}  // namespace ddprun
