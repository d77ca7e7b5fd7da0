// SPDX-License-Identifier: MIT
// From an experiment's file and the overrides of the command line to one tree of values, each with its origin.
#pragma once

#include <ddprun/value.h>

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

struct ComposeInput {
  std::filesystem::path experiment;               // tried as given, then below each folder of the search path
  std::vector<std::string> overrides;             // key=value, +key=value, ++key=value, ~key, group=option
  std::vector<std::filesystem::path> search_path;  // where experiments and the groups of `defaults:` lie
};

// Reads, composes `defaults:`, applies the overrides, interpolates. Throws UserError with all mistakes, one a line.
Value compose(const ComposeInput& input);

// One YAML file as a tree. Throws UserError for what YAML or our limits forbid: duplicate keys, cycles, alias bombs, more
// than 1 MB, deeper than 64.
Value load_yaml(const std::filesystem::path& file);

// The tree as YAML, each line with its value's origin as a comment where `origins` is set. load_yaml reads it back.
std::string to_yaml(const Value& value, bool origins);

}  // namespace ddprun
