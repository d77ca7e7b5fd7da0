// SPDX-License-Identifier: MIT
// Keys of the experiment file that have had another name. The old one is read as the new one until 0.3, with a warning.
#pragma once

#include "config/key_path.h"

#include <ddprun/value.h>

namespace ddprun {

// The path under its present name.
KeyPath current_name(KeyPath path, const Origin& origin);

// The same for all that is written in a file. A key that is there under both names keeps them: the old one is unknown.
void use_current_names(Value& config);

}  // namespace ddprun
