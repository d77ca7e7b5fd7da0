// SPDX-License-Identifier: MIT
// torchrun's flags on ddprun's command line.
#pragma once

#include "cluster/launch_flags.h"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ddprun {

// Adds them to a command; what is given goes into `flags`, which must outlive the parsing.
void add_launch_flags(CLI::App& command, LaunchFlags& flags);

// The words with each launch flag in the one spelling that add_launch_flags knows: torchrun's --nproc_per_node becomes
// --nproc-per-node, and -nr, which would be read as -n r, becomes --node-rank. Those of a well-known tutorial are known
// too: --nodes,
// --gpus, --nr, and --epochs N, which becomes trainer.max_epochs=N.
std::vector<std::string> with_plain_launch_flags(std::vector<std::string> words);

}  // namespace ddprun
