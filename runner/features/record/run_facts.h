// SPDX-License-Identifier: MIT
// What a run was made of, as far as it has recorded that: its experiment, where it ran, its data.
#pragma once

#include "features/record/record_file.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ddprun {

// Leaves out what has no effect on results: names, times, folders. What is missing in the run's folder is missing here.
// Where and of which data it was made is that of the run `made_again`, if its steps were.
RunFacts run_facts(const std::filesystem::path& run_dir, const std::filesystem::path& made_again = {});

// Returns what run_facts() has of an environment.json.
std::map<std::string, std::string> environment_facts(const std::filesystem::path& environment);

// Returns a sentence without a period for each that differs: "experiment: optimizer.lr is 0.01 and 0.02".
std::vector<std::string> differences(const RunFacts& first, const RunFacts& second);

// Returns the environment with those variables of an environment.json that LibTorch's libraries compute by, and with no
// others of them; unchanged if it has not recorded its variables.
std::vector<std::string> with_library_variables(std::vector<std::string> environment,
                                                const std::filesystem::path& environment_file);

}  // namespace ddprun
