// SPDX-License-Identifier: MIT
// Shows how far a dataset's prepare() is, on standard error: a line that redraws itself on a terminal, a line for each tenth
// where there is none.
#pragma once

#include <ddprun/dataset.h>

namespace ddprun {

Progress prepare_display();

}  // namespace ddprun
