// SPDX-License-Identifier: MIT
// One override of the command line: "+trainer.max_steps=3". What they mean stands in compose.h.
#pragma once

#include "config/key_path.h"
#include "config/yaml_reader.h"

#include <ddprun/value.h>

#include <optional>
#include <string>

namespace ddprun {

// One override as written: "+trainer.max_steps=3" is the action kAdd, a path and a value.
struct Override {
  enum class Action { kSet, kAdd, kForce, kRemove };
  Action action = Action::kSet;
  bool chooses = false;  // which plugin or file a section is made of
  KeyPath path;
  Value value;    // null for kRemove
  Origin origin;  // "command line: +trainer.max_steps=3"
};

// Returns nothing, and notes a line in `problems`, if the text is not an override.
std::optional<Override> parse_override(const std::string& text, Problems& problems);

}  // namespace ddprun
