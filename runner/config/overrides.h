// SPDX-License-Identifier: MIT
// Changes to the composed tree from the command line; compose.h tells their syntax.
#pragma once

#include "config/defaults_list.h"

#include <ddprun/value.h>

#include <string>
#include <vector>

namespace ddprun {

// Applies them in order, but choices of a plugin or of a group's file before everything else: `model.dropout=0.2
// model=convnet` means what it says. Each mistake is one line in `problems`, and its override is left out.
void apply_overrides(Value& config, const std::vector<std::string>& overrides, DefaultsComposer& composer,
                     Problems& problems);

}  // namespace ddprun
