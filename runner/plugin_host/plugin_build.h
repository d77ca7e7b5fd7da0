// SPDX-License-Identifier: MIT
// Plugins of one source file, compiled where they are needed: `ddprun run --build my_net.cpp EXPERIMENT`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

// For each source a folder that holds the plugin it makes, compiled against the SDK that this program belongs to, and
// nothing else. It lies in $XDG_CACHE_HOME/ddprun/built or ~/.cache/ddprun/built, is named by the content of the
// source, of the headers of its own that it includes and of the compiler's command, and is never changed: what is there
// already is not compiled again, and a run goes on with the plugin that it began with. Several processes may build the
// same at once.
//
// The compiler is $CXX, else the one that ddprun was built with. Throws UserError where there is none, with its message
// where it refuses a source, where the result is no plugin that this program can load, and for two plugins of one kind
// and name.
std::vector<std::filesystem::path> build_plugins(const std::vector<std::string>& sources);

}  // namespace ddprun
