// SPDX-License-Identifier: MIT
// Collects everything that the page shows of one run.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <filesystem>

namespace ddprun {

// Returns an object for page/*.js. Whatever is missing in the folder is missing here; broken parts are listed under
// "problems". A curve has at most `most_points` points.
nlohmann::ordered_json recorded_run(const std::filesystem::path& run_dir, size_t most_points);

}  // namespace ddprun
