// SPDX-License-Identifier: MIT
// The overrides on a run's command line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

using Overrides = std::vector<std::string>;  // of one run, as on its command line

// Returns those recorded in the run's folder; none if it has no record.
Overrides read_overrides(const std::filesystem::path& run);

// Returns for each run the overrides that not all of them have, shortened to the last name of their path if no other
// path among them ends with it: "lr=0.1 layers=2". A run's location (run.dir) is ignored. A single run has nothing to
// be told from.
std::vector<std::string> overrides_apart(const std::vector<Overrides>& runs);

}  // namespace ddprun
