// SPDX-License-Identifier: MIT
// The path of a value in the tree: "trainer.max_epochs", "loggers[1].plugin" (the same as "loggers.1.plugin").
#pragma once

#include <ddprun/value.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

using KeyPath = std::vector<std::string>;  // a list element is its index as text

// Returns nothing if a part is empty or a bracket is wrong.
std::optional<KeyPath> parse_key_path(std::string_view text);
std::string to_text(const KeyPath& path);

// Returns the index into a list if the text is digits only.
std::optional<size_t> list_index(std::string_view text);

// A message that begins with the key it is about: "launch.workers: 9 workers for 8 GPUs".
struct KeyMessage {
  std::string key = {}, text;  // "launch.workers", "9 workers for 8 GPUs"; the key is empty if it begins with none
};
KeyMessage split_message(const std::string& message);

// Returns the value at this key or index; null if there is none.
Value* child(Value& parent, std::string_view key);
Value* find_at(Value& root, const KeyPath& path);
const Value* find_at(const Value& root, const KeyPath& path);

// Returns the value's place, or that of the section it is missing in.
Origin place_at(const Value& root, KeyPath path);

// A value and its path; a key may have dots of its own, which are not distinguished from those between keys.
struct PlacedValue {
  std::string path;
  const Value& value;
};

// Returns all values below this one, including lists and maps.
std::vector<PlacedValue> all_values(const Value& root);

}  // namespace ddprun
