// SPDX-License-Identifier: MIT
// One override as written: "+trainer.max_steps=3" is the action kAdd, a path and a value.
#pragma once

#include "config/key_path.h"
#include "config/yaml_reader.h"

#include <optional>
#include <string>

namespace ddprun {

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
