// SPDX-License-Identifier: MIT
// What a logger promises. As in a run, it is constructed in one thread and called from another.
#pragma once

#include <ddprun/logger.h>
#include <ddprun/testing/plugin.h>

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::check {

// A logger, and the folder of the runs that it is told of.
struct LoggerTest {
  Maker<Logger> make;
  std::filesystem::path run_dir = {};  // empty: a temporary folder for each check, removed after it
};

// A run with all that can be told of one, then a resumed one in the same folder, and one that ends without finish():
// nothing throws.
std::string takes_a_run(const LoggerTest& test);

// NaN and infinities, empty tables, names in any script, with quotes, line breaks and broken UTF-8: nothing throws.
std::string takes_odd_values(const LoggerTest& test);

// What a hook is given may change and go as soon as it has returned: nothing of that shows below the run folder.
std::string keeps_no_references(const LoggerTest& test);

// All of the above, each problem with the name of the function that found it.
std::vector<std::string> all(const LoggerTest& test);

}  // namespace ddprun::check
