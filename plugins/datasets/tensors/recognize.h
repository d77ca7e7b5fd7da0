// SPDX-License-Identifier: MIT
// Which arrays are the inputs and the targets of which split, by their names: `ddprun init`.
#pragma once

#include <ddprun/found_files.h>

#include <optional>

namespace ddprun::arrays {

std::optional<Recognized> recognize(const FoundFiles& found);

}  // namespace ddprun::arrays
