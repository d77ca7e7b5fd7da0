// SPDX-License-Identifier: MIT
// Compiles plugins of one source file on demand: `ddprun run --build my_net.cpp EXPERIMENT`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

// Returns for each source a folder that contains only its plugin, compiled against this program's SDK. The folder is in
// $XDG_CACHE_HOME/ddprun/built or ~/.cache/ddprun/built, is named by the content of the source, of its own headers and
// of the compiler's command, and never changes: an existing build is reused, and a run continues with the plugin that
// it began with. Several processes may build the same source at once.
//
// The compiler is $CXX, or else the one that ddprun was built with. Throws UserError if there is none, with its message
// if it refuses a source, if the result is not a plugin that this program can load, and for two plugins of one kind and
// name.
std::vector<std::filesystem::path> build_plugins(const std::vector<std::string>& sources);

// Returns what a person needs of GCC's or Clang's output: its errors with the source lines shown below them, and what
// the linker misses; of the trail of headers and templates around them only the beginning. Returns all of it if nothing
// looks like an error.
std::string errors_of_compiler(const std::string& output);

}  // namespace ddprun
