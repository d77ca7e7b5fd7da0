// SPDX-License-Identifier: MIT
// Trains one run for each combination of values: `ddprun -m optimizer.lr=0.1,0.01 model.hidden=64,128 EXPERIMENT`.
#pragma once

#include "command_line/arguments.h"

#include <string>
#include <vector>

namespace ddprun {

// Returns every combination: {"a=1,2", "b=x,y"} gives {"a=1", "b=x"}, {"a=1", "b=y"}, {"a=2", "b=x"}, {"a=2", "b=y"}.
// "a=0..4" is five values, 0 to 4. A comma inside brackets, braces or quotes does not separate. Throws UserError if
// nothing stands before or after a comma, or a range does not ascend.
std::vector<std::vector<std::string>> combinations(const std::vector<std::string>& overrides);

// Checks all runs, then trains one after the other, each in its own process with a folder below
// outputs/<name>/multirun_<time>, or below run.dir, and lists them. A failed run does not stop the sweep; a run that
// was asked to stop does. In the folder of the same sweep it continues and skips finished runs. Returns the exit code
// of the stopped run, or kExitFailed if one failed.
int multirun(const Arguments& arguments);

}  // namespace ddprun
