// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace ddprun {

// What a person needs of GCC's or Clang's output: its errors with the lines of source that it shows below them, and
// what the linker misses; of the trail of headers and templates around them only where it begins. All of it where
// nothing in it looks like an error.
std::string errors_of_compiler(const std::string& output);

}  // namespace ddprun
