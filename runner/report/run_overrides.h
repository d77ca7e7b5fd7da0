// SPDX-License-Identifier: MIT
// What a run was told on its command line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

using Overrides = std::vector<std::string>;  // of one run, as its command line had them

// Those that the run's folder remembers; none where it does not.
Overrides read_overrides(const std::filesystem::path& run);

// For each of the runs the overrides that not all of them have, by the last name of their path where no other path
// among them ends with it: "lr=0.1 layers=2". Where a run lies (run.dir) tells nothing. A run alone has nothing to be
// told from.
std::vector<std::string> overrides_apart(const std::vector<Overrides>& runs);

}  // namespace ddprun
