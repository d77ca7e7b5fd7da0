// SPDX-License-Identifier: MIT
// The Python that has the torch whose LibTorch this program runs with, for what torch does in Python alone.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

// Returns $DDPRUN_PYTHON, or the Python in whose site-packages LibTorch lies: a clone's .venv, the wheel's. Throws
// UserError where there is none.
std::filesystem::path find_torch_python();

// Runs share/ddprun/tools/<tool> to its end and returns what it wrote. Throws UserError with the last line of that
// where it fails.
std::string run_tool(const std::filesystem::path& python, const std::string& tool,
                     const std::vector<std::string>& arguments);

}  // namespace ddprun
