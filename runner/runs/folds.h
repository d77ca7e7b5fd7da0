// SPDX-License-Identifier: MIT
// Cross-validation: what the runs that hold out one fold each say together.
#pragma once

#include "runs/run_list.h"

#include <string>
#include <vector>

namespace ddprun {

// Returns a line for each two or more runs of one folder whose command lines differ in dataset.fold alone, with the
// mean and the standard deviation (of a sample: n - 1) of their best values; empty if there are none. Of several runs
// of one fold the newest counts, and of all only those that have trained to their end.
std::string folds_text(const std::vector<ListedRun>& runs);

}  // namespace ddprun
