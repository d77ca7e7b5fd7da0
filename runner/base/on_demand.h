// SPDX-License-Identifier: MIT
// Parts of a clone's build that `tools/build` makes when something needs them: plugins and the GPU backend.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

inline constexpr auto kCudaBackend = "lib/ddprun/backends/cuda.so";

// Says "no" to building: it is set for workers, and for what runs during a build.
inline constexpr auto kOnDemandVariable = "DDPRUN_ON_DEMAND";

// Returns the folder that has bin/ddprun, lib/ddprun and share/ddprun: where ddprun is installed, or build/release of a
// clone. The names of parts are relative to it: "lib/ddprun/plugins/models/mlp.so".
std::filesystem::path own_prefix();

// Returns the parts that are not built yet: none where ddprun is installed. A build that is under way, or was
// interrupted, may have written half of a file, so that all parts count.
std::vector<std::string> unbuilt_parts();

// Builds those of the parts that are not built yet, all at once: the lines of tools/build go to standard error. Several
// processes may do so at the same time. Stop signals act meanwhile as they did when the program started, unless they
// are handled. Throws UserError if the build fails, if $DDPRUN_ON_DEMAND is "no", and if the build has replaced this
// very program.
void require_parts(std::vector<std::string> parts);

}  // namespace ddprun
