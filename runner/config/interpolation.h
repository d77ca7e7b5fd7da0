// SPDX-License-Identifier: MIT
// Replaces ${...} in the values of a composed tree; compose.h tells the syntax.
#pragma once

#include "config/yaml_reader.h"

#include <ddprun/value.h>

#include <string>
#include <vector>

namespace ddprun {

// Each mistake is one line in `problems`. Returns the places of the values that keep their ${...} because of one: a
// reader's complaint about those says nothing new.
std::vector<std::string> interpolate(Value& config, Problems& problems);

}  // namespace ddprun
