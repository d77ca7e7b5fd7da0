// SPDX-License-Identifier: MIT
// Where a value sits in the tree: "trainer.max_epochs", "loggers[1].plugin" (the same as "loggers.1.plugin").
#pragma once

#include "config/yaml_reader.h"

#include <ddprun/value.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

using KeyPath = std::vector<std::string>;  // an element of a list is its index as text

// Nothing where a part is empty or a bracket is wrong.
std::optional<KeyPath> parse_key_path(std::string_view text);
std::string to_text(const KeyPath& path);

// An index into a list: digits only.
std::optional<size_t> list_index(std::string_view text);

// One step down: the value at this key or index; null pointer where there is none.
Value* child(Value& parent, std::string_view key);
Value* find_at(Value& root, const KeyPath& path);
const Value* find_at(const Value& root, const KeyPath& path);

// The paths of all values below this one, lists and maps included.
std::vector<std::string> all_paths(const Value& root);

// One override as written: "+trainer.max_steps=3" is the action kAdd, a path and a value.
struct Override {
  enum class Action { kSet, kAdd, kForce, kRemove };
  Action action = Action::kSet;
  KeyPath path;
  Value value;    // null for kRemove
  Origin origin;  // "command line: +trainer.max_steps=3"
};

// Nothing, and a line in `problems`, where the text is no override.
std::optional<Override> parse_override(const std::string& text, Problems& problems);

}  // namespace ddprun
