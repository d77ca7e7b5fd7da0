// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace ddprun {

// Returns what a person needs of GCC's or Clang's output: its errors with the source lines shown below them, and what
// the linker misses; of the trail of headers and templates around them only the beginning. Returns all of it if nothing
// looks like an error.
std::string errors_of_compiler(const std::string& output);

}  // namespace ddprun
