// SPDX-License-Identifier: MIT
// What a logger promises. As in a run, it is constructed on one thread and called from another.
#pragma once

#include <ddprun/logger.h>
#include <ddprun/testing/plugin.h>

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::check {

// A logger, and the run folder that it is given.
struct LoggerTest {
  Maker<Logger> make;
  std::filesystem::path run_dir = {};  // empty: a temporary folder for each check, removed after it
};

// Survives a full run that reports everything, then a resumed one in the same folder, and one that ends without
// finish(): nothing throws.
std::string takes_a_run(const LoggerTest& test);

// Survives NaN and infinities, empty tables, and names in any script, with quotes, line breaks and broken UTF-8:
// nothing throws.
std::string takes_odd_values(const LoggerTest& test);

// A hook's arguments may change or go away once it has returned: none of that may show below the run folder.
std::string keeps_no_references(const LoggerTest& test);

// Runs all of the above; each problem carries the name of the function that found it.
std::vector<std::string> all(const LoggerTest& test);

}  // namespace ddprun::check
