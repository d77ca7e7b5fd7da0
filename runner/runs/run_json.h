// SPDX-License-Identifier: MIT
// What `ddprun report --json` prints of a run, for scripts and for the Python package.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace ddprun {

// Returns an object in one line: what run_list_json() has of the run, with all that it measured at its best, its
// attempt, summary, experiment, environment, events and checkpoints. With `rows` also, under that name, the rows that
// count as they were recorded: "metrics", or the tables of a kind. Of a folder that is no run, or cannot be read, it
// has the status "unreadable" and the reason.
std::string run_json(const std::filesystem::path& folder, const std::string& rows);

// Returns environment.json without the changes of the code, which nobody has looked at before they are mailed; null if
// that is no object.
nlohmann::ordered_json recorded_environment(const std::filesystem::path& run_dir);

}  // namespace ddprun
