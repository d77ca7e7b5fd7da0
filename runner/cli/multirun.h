// SPDX-License-Identifier: MIT
// One run for each combination of values: `ddprun -m optimizer.lr=0.1,0.01 model.hidden=64,128 EXPERIMENT`.
#pragma once

#include "cli/arguments.h"

#include <string>
#include <vector>

namespace ddprun {

// {"a=1,2", "b=x,y"} gives {"a=1", "b=x"}, {"a=1", "b=y"}, {"a=2", "b=x"}, {"a=2", "b=y"}. A comma within brackets,
// braces or quotes separates nothing. Throws UserError where nothing stands before or after a comma.
std::vector<std::vector<std::string>> combinations(const std::vector<std::string>& overrides);

// Checks all of them, then runs one after the other, each as a process of its own with a folder below
// outputs/<name>/multirun_<time>, or below run.dir, and lists them. A run that fails does not keep the others from
// running; one that was told to stop does. In the folder of a sweep of the same runs it goes on: those that are done
// are left alone. Returns the exit code: of the run that was stopped, or kExitFailed where one failed.
int multirun(const Arguments& arguments);

}  // namespace ddprun
